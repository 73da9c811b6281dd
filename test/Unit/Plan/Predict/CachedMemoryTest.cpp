// What programs with PyTorch's allocator take of a device beyond their tensors.
#include "FoundStages.h"
#include "Predict/StageAllocations.h"
#include "Transformer.h"

#include "dtc/Plan/Emulate/AllocatorReplay.h"
#include "dtc/Plan/Predict/Predict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace dtc::plan;
using namespace dtc::plan::testing;
using dtc::schedule::Call;
using dtc::schedule::Pass;
using Action = AllocationEvent::Action;

static constexpr int64_t kMiB = 1 << 20, kPlenty = std::numeric_limits<int64_t>::max();

//===-- requests of a rank ------------------------------------------------===//

/// One chunk that keeps a buffer of `saved` and has one of `scratch` meanwhile; its
/// backward pass makes a gradient.
static RankRequests rankOf(int64_t resident, int64_t saved, int64_t scratch, int64_t gradient) {
  RankRequests rank;
  rank.resident = {resident};
  StageAllocations stage;
  stage.bytes = {scratch, saved, gradient};
  stage.forward = {{Action::Allocate, 0}, {Action::Allocate, 1}, {Action::Free, 0}};
  stage.inputGrad = {{Action::Free, 1}};
  stage.weightGrad = {{Action::Allocate, 2}, {Action::Gradient, 2}};
  rank.stages = {stage};
  rank.gathered = rank.scattered = {{}};
  return rank;
}

static const std::vector<Call> kOneByOne = {{Pass::Forward, 0, 0, 0},
                                            {Pass::Backward, 0, 0, 0},
                                            {Pass::Forward, 0, 1, 0},
                                            {Pass::Backward, 0, 1, 0}};
static const std::vector<Call> kTogether = {{Pass::Forward, 0, 0, 0},
                                            {Pass::Forward, 0, 1, 1},
                                            {Pass::Backward, 0, 0, 0},
                                            {Pass::Backward, 0, 1, 1}};

TEST(AllocatorReplay, MicrobatchesUnderWayTakeMemoryEach) {
  RankRequests rank = rankOf(100 * kMiB, 40 * kMiB, 30 * kMiB, 0);
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 170 * kMiB);
  // The second one's temporaries are where the first one's were.
  EXPECT_EQ(peakReserved(rank, kTogether, kPlenty), 210 * kMiB);
}

TEST(AllocatorReplay, GradientsStayForAStepAMicrobatchOrNotAtAll) {
  RankRequests rank = rankOf(100 * kMiB, 40 * kMiB, 30 * kMiB, 50 * kMiB);
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 220 * kMiB);
  // The first one's stays where it is; the second one needs a place of its own.
  rank.gradients = GradientLife::Step;
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 270 * kMiB);
  // Given back at the beginning of the next pass, after copies of 100 MiB each.
  rank.gradients = GradientLife::Microbatch;
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 320 * kMiB);
}

/// Three passes for gradients of inputs, which make some of parameters, come before those for the
/// rest. There the first microbatch's gradients stay and the others' are added to them.
TEST(AllocatorReplay, OneMicrobatchsGradientsStayForAStep) {
  RankRequests rank = rankOf(100 * kMiB, 40 * kMiB, 30 * kMiB, 50 * kMiB);
  rank.gradients = GradientLife::Step;
  rank.stages[0].inputGrad = {{Action::Free, 1}, {Action::Allocate, 2}, {Action::Gradient, 2}};
  rank.stages[0].weightGrad.clear();
  std::vector<Call> calls;
  for (Pass pass : {Pass::Forward, Pass::InputGrad, Pass::WeightGrad})
    for (int microbatch = 0; microbatch < 3; ++microbatch)
      calls.push_back({pass, 0, microbatch, microbatch});
  EXPECT_EQ(peakReserved(rank, calls, kPlenty), (100 + 30 + 3 * 40 + 2 * 50) * kMiB);
}

TEST(AllocatorReplay, StatesOfTheFirstUpdateDontFindTheTemporariesPlace) {
  RankRequests rank = rankOf(100 * kMiB, 40 * kMiB, 30 * kMiB, 0);
  rank.states = {200 * kMiB};
  rank.update = {60 * kMiB};
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 430 * kMiB);
  // Made first, the update leaves a place for the first 30 MiB of the calls.
  rank.updatesFirst = true;
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 400 * kMiB);
}

/// The copy for the norm finds no place then: the calls' are apart.
TEST(AllocatorReplay, AnUpdateWithZerosSumsUpNothing) {
  RankRequests rank = rankOf(100 * kMiB, 40 * kMiB, 30 * kMiB, 0);
  rank.states = {50 * kMiB};
  rank.norm = {60 * kMiB};
  rank.updatesFirst = true;
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 280 * kMiB);
}

TEST(AllocatorReplay, CastsAreGoneBeforeTheNext) {
  RankRequests rank = rankOf(100 * kMiB, 40 * kMiB, 30 * kMiB, 0);
  rank.casts = {30 * kMiB, 60 * kMiB};
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 230 * kMiB);
  rank.casts = {60 * kMiB, 60 * kMiB};
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 230 * kMiB);
}

TEST(AllocatorReplay, WhatIsCopiedAtTheStartIsUsedAgain) {
  RankRequests rank = rankOf(100 * kMiB, 40 * kMiB, 30 * kMiB, 0);
  rank.initial = {50 * kMiB, 50 * kMiB};
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 200 * kMiB);
}

TEST(AllocatorReplay, GathersLieApart) {
  RankRequests rank = rankOf(100 * kMiB, 40 * kMiB, 30 * kMiB, 0);
  rank.gathered = {{20 * kMiB, 20 * kMiB}};
  rank.scattered = {{10 * kMiB}};
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 170 * kMiB + 50 * kMiB);
  rank.scattered = {{20 * kMiB, 20 * kMiB}};
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 170 * kMiB + 80 * kMiB)
      << "those that are scattered don't use the places of those gathered";
}

TEST(AllocatorReplay, GathersTwoAtATime) {
  RankRequests rank = rankOf(100 * kMiB, 40 * kMiB, 30 * kMiB, 0);
  rank.gathered = {{20 * kMiB, 20 * kMiB, 20 * kMiB, 20 * kMiB}};
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 170 * kMiB + 40 * kMiB);
  rank.gathered = {{60 * kMiB, 20 * kMiB}};
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 170 * kMiB + 80 * kMiB);
  // Backward, the second 20 is a part of the 60 that the forward pass left.
  rank.gathered = {{20 * kMiB, 60 * kMiB, 20 * kMiB, 20 * kMiB}};
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 170 * kMiB + 140 * kMiB);
}

//===-- variables ---------------------------------------------------------===//

/// Three temporaries one after the other, the last ones larger.
static RankRequests stepsOf(int64_t first, int64_t second, int64_t third, Action freed) {
  RankRequests rank = rankOf(100 * kMiB, 0, 0, 0);
  rank.stages[0].bytes = {first, second, third};
  rank.stages[0].forward = {{Action::Allocate, 0}, {freed, 0}, {Action::Allocate, 1}, {freed, 1},
                            {Action::Allocate, 2}, {freed, 2}};
  rank.stages[0].inputGrad.clear();
  rank.stages[0].weightGrad.clear();
  return rank;
}

TEST(AllocatorReplay, VariablesHoldWhatAForwardPassIsDoneWith) {
  RankRequests rank = stepsOf(30 * kMiB, 30 * kMiB, 30 * kMiB, Action::Release);
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 130 * kMiB);
  rank.held = 1;
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 160 * kMiB);
  rank.held = 8;
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 190 * kMiB) << "until the call returns";
  rank.stages[0] = stepsOf(30 * kMiB, 30 * kMiB, 30 * kMiB, Action::Free).stages[0];
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 130 * kMiB) << "what autograd frees is gone";
}

TEST(AllocatorReplay, AFreeOfTheBackwardPassFindsVariablesGone) {
  RankRequests rank = stepsOf(30 * kMiB, 30 * kMiB, 30 * kMiB, Action::Release);
  rank.held = 8;
  rank.stages[0].forward[3].action = Action::Free; // and the first one with the second
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 160 * kMiB);
}

/// A variable more never makes it less, even where what it holds would be in the way.
TEST(AllocatorReplay, TellsTheLargestPeakOfAllThatMayBeHeld) {
  RankRequests rank = stepsOf(60 * kMiB, 30 * kMiB, 60 * kMiB, Action::Release);
  std::vector<int64_t> peaks;
  for (size_t held = 0; held <= 3; ++held) {
    rank.held = held;
    peaks.push_back(*peakReserved(rank, kOneByOne, kPlenty));
  }
  EXPECT_TRUE(std::is_sorted(peaks.begin(), peaks.end()));
  EXPECT_EQ(peaks.front(), 160 * kMiB);
  EXPECT_EQ(peaks.back(), 250 * kMiB);
}

/// What variables might hold refuses no program: 170 MiB are enough for one at a time.
TEST(AllocatorReplay, WhatVariablesHoldDoesNotMakeAProgramFail) {
  RankRequests rank = stepsOf(30 * kMiB, 30 * kMiB, 30 * kMiB, Action::Release);
  rank.held = 8;
  EXPECT_EQ(peakReserved(rank, kOneByOne, 170 * kMiB), 160 * kMiB);
  EXPECT_EQ(peakReserved(rank, kOneByOne, 130 * kMiB), 130 * kMiB);
  EXPECT_EQ(peakReserved(rank, kOneByOne, 129 * kMiB), std::nullopt);
}

/// Cached segments are given back first. With 205 MiB the update has those of the calls. They find
/// 30 of its 60 MiB and ask for 40 again. With 175 there is no more.
TEST(AllocatorReplay, RunsOutOfMemoryWhereTheCacheCannotBeGivenBack) {
  RankRequests rank = rankOf(100 * kMiB, 40 * kMiB, 30 * kMiB, 0);
  rank.update = {60 * kMiB};
  EXPECT_EQ(peakReserved(rank, kOneByOne, kPlenty), 230 * kMiB);
  EXPECT_EQ(peakReserved(rank, kOneByOne, 205 * kMiB), 200 * kMiB);
  EXPECT_EQ(peakReserved(rank, kOneByOne, 175 * kMiB), std::nullopt);
}

TEST(AllocatorReplay, AShorterStepHasAsManyUnderWay) {
  for (auto kind : {dtc::schedule::ScheduleKind::OneFOneB, dtc::schedule::ScheduleKind::Interleaved,
                    dtc::schedule::ScheduleKind::ZeroBubble, dtc::schedule::ScheduleKind::GPipe,
                    dtc::schedule::ScheduleKind::ListScheduled}) {
    int64_t chunks = kind == dtc::schedule::ScheduleKind::Interleaved ? 2 : 1;
    auto whole = dtc::schedule::makeSchedule({kind, 4, chunks, 64});
    ASSERT_TRUE(whole);
    std::vector<std::vector<Call>> shorter = shortened(*whole);
    ASSERT_EQ(shorter.size(), 4u);
    for (int64_t rank = 0; rank < 4; ++rank) {
      const std::vector<Call> &calls = shorter[rank];
      std::vector<int32_t> slots(chunks, 0);
      for (const Call &call : calls)
        slots[call.chunk] = std::max(slots[call.chunk], call.slot + 1);
      EXPECT_EQ(slots, whole->slots[rank]);
      if (kind == dtc::schedule::ScheduleKind::GPipe) // has all under way
        EXPECT_EQ(calls, whole->calls[rank]);
      else
        EXPECT_LT(2 * calls.size(), whole->calls[rank].size());
    }
  }
}

//===-- requests of an execution ------------------------------------------===//

/// The most that the calls of one microbatch have at a time, without gradients.
static int64_t mostLive(const StageAllocations &stage) {
  std::vector<int> owners(stage.bytes.size(), 0);
  int64_t now = 0, most = 0;
  for (const auto *events : {&stage.forward, &stage.inputGrad, &stage.weightGrad})
    for (const AllocationEvent &event : *events) {
      bool allocates = event.action == Action::Allocate;
      owners[event.buffer] += allocates ? 1 : -1;
      EXPECT_EQ(owners[event.buffer], allocates ? 1 : 0) << "buffer " << event.buffer;
      now += (allocates ? 1 : -1) * stage.bytes[event.buffer];
      most = std::max(most, now);
    }
  EXPECT_EQ(now, 0) << "all is freed";
  return most;
}

static Prediction predicted(const Problem &problem, const Cluster &on, int64_t devices,
                            const std::string &spec, bool fold = true) {
  SearchOptions options{devices, *parseSpec("cp=1,ep=1," + spec)};
  options.executable = false;
  options.fold = fold;
  SearchOutcome result = search(problem, on, options);
  EXPECT_TRUE(result) << spec << ": " << result.error().message;
  return result ? result->predicted : Prediction{};
}

/// Without products that write gradients where they stay, what an execution's steps
/// have at a time is what its requests have.
TEST(StageAllocations, HaveAsMuchAtATimeAsTheExecution) {
  for (const char *name : {"gpt", "llama_kv2"}) {
    Problem problem = load(name);
    std::erase_if(problem.results, [](const FunctionResult &result) {
      return result.kind == ResultKind::Gradient;
    });
    for (const char *spec : {"dp=1,tp=1,pp=1,recompute=none", "dp=1,tp=4,pp=1,recompute=none"}) {
      SearchOptions options{spec[8] == '4' ? 4 : 1, *parseSpec(std::string("cp=1,ep=1,") + spec)};
      options.executable = false;
      SearchOutcome found = search(problem, cluster("dgx-h100"), options);
      ASSERT_TRUE(found) << found.error().message;
      ProblemFacts facts(found->problem);
      CostModel model(cluster("dgx-h100"), options.devices);
      RankExecution execution(found->problem, facts, found->plan, model);
      FoldedCuts cuts{{0, facts.lastForward + 1}, {}};
      AllocationSequence sequence(found->problem, execution, cuts);
      ASSERT_TRUE(sequence.inStep());
      EXPECT_EQ(mostLive(sequence.stage(0, 1, false)), peakBytes(execution)) << name << spec;
      StageAllocations stage = sequence.stage(0, 1, false);
      auto has = [](const std::vector<AllocationEvent> &events, Action action) {
        return std::any_of(events.begin(), events.end(),
                           [&](const AllocationEvent &event) { return event.action == action; });
      };
      EXPECT_TRUE(has(stage.forward, Action::Release) && !has(stage.forward, Action::Free)) << spec;
      EXPECT_TRUE(!has(stage.inputGrad, Action::Release) && has(stage.inputGrad, Action::Free))
          << spec;
      mostLive(sequence.stage(0, 1, true));
    }
  }
}

/// The first stage looks an embedding up, the second one multiplies by it. No term is sent. The sum
/// isn't returned here, as then it would lie where one of its terms does.
TEST(StageAllocations, SumTiedGradientsInEachStage) {
  Problem problem = load("gpt");
  std::erase_if(problem.results, [](const FunctionResult &result) {
    return result.kind == ResultKind::Gradient;
  });
  SearchOptions options{1, *parseSpec("cp=1,ep=1,dp=1,tp=1,pp=1,recompute=none")};
  options.executable = false;
  SearchOutcome found = search(problem, cluster("dgx-h100"), options);
  ASSERT_TRUE(found) << found.error().message;
  ProblemFacts facts(found->problem);
  CostModel model(cluster("dgx-h100"), 1);
  RankExecution execution(found->problem, facts, found->plan, model);
  AllocationSequence sequence(found->problem, execution,
                              {{0, facts.lastForward / 2, facts.lastForward + 1}, {}});
  int64_t table = 0; // its gradient is the only sum of two terms
  for (const ExecutionStep &step : execution.steps)
    if (step.op >= 0 && found->problem.ops[step.op].kind == OpKind::GradientSum)
      table = std::max(table, execution.buffers[step.writes[0]].bytes);
  ASSERT_GT(table, 0);
  auto count = [&](int unit, Action action) {
    StageAllocations stage = sequence.stage(unit, unit + 1, false);
    return std::ranges::count_if(stage.inputGrad, [&](const AllocationEvent &event) {
      return event.action == action && stage.bytes[event.buffer] == table;
    });
  };
  EXPECT_EQ(count(0, Action::Allocate), 1);
  EXPECT_EQ(count(1, Action::Allocate), 1);
  EXPECT_EQ(count(0, Action::Gradient) + count(1, Action::Gradient), 1) << "that of no sum";
}

TEST(StageAllocations, OfFoldedModelsAreThoseOfTheWhole) {
  Cluster on = cluster("dgx-a100");
  on.software.cachingAllocator = on.software.halfGradients = true;
  Problem problem = transformer({12, 512, 8, 256, 32, 4096});
  for (const char *spec : {"dp=2,tp=1,pp=1,zero=1,micro_batch=2,recompute=full",
                           "dp=2,tp=1,pp=1,zero=3,micro_batch=2,recompute=none",
                           "dp=1,tp=2,pp=1,zero=0,micro_batch=4,recompute=none",
                           "dp=1,tp=1,pp=2,schedule=1f1b,zero=0,micro_batch=2,recompute=none"}) {
    Prediction folded = predicted(problem, on, 2, spec),
               whole = predicted(problem, on, 2, spec, false);
    EXPECT_GT(whole.memory.cached, 0) << spec;
    EXPECT_EQ(folded.memory, whole.memory) << spec;
  }
}

//===-- requests of a plan ------------------------------------------------===//

static int64_t sum(const std::vector<int64_t> &requests) {
  return std::accumulate(requests.begin(), requests.end(), int64_t{0});
}

/// What ranks ask for beside activations is what they are told to hold, whatever isn't trained.
TEST(RankRequests, AskForWhatIsTold) {
  Problem problem = transformer({4, 512, 8, 128, 16, 1024});
  std::erase_if(problem.results, [](const FunctionResult &result) {
    return result.kind == ResultKind::Gradient && result.name == "h.1.up";
  });
  std::vector<Software> list = {
      {},
      {.normTemporaries = 2, .updateTemporaries = 3, .bucketElements = 1000000},
      {.overlapCommunication = false, .halfGradients = true, .normTemporaries = 1,
       .flattens = true, .bucketElements = 1000000}};
  int larger = 0; // whole models than what is kept of them
  for (const char *spec : {"dp=4,zero=0", "dp=4,zero=1", "dp=4,zero=3",
                           "dp=2,pp=2,zero=1,offload=optimizer", "dp=4,zero=3,offload=optimizer"})
    for (const Software &software : list) {
      Cluster on = cluster("dgx-a100");
      on.software = software;
      on.software.cachingAllocator = true;
      const FoundStages of(
          best(problem, 4, std::string(spec) + ",recompute=none,micro_batch=1", on), on);
      const SearchResult &found = of.found;
      const UniformStages &kind = of.stages;
      for (int64_t rank = 0; rank < found.plan.degrees.pp; ++rank) {
        StageCosts::Runs runs = kind.stagesOf(rank);
        MemoryUse use = kind.costs().staticBytes(runs);
        BetweenCalls between = kind.costs().betweenCalls(runs);
        RankRequests asked = kind.costs().requests(runs);
        bool made = asked.gradients == GradientLife::Step; // by the backward pass
        auto workspace = std::llround(kind.getModel().reserve(0).workspace);
        // Less than a byte for each of the tensors is lost where they are taken to be alike.
        auto expectSum = [&](const std::vector<int64_t> &requests, int64_t told) {
          EXPECT_NEAR(double(sum(requests)), double(told), double(requests.size())) << spec;
        };
        expectSum(asked.resident,
                  use.parameters + (made ? 0 : use.gradients) + use.data + workspace);
        expectSum(asked.states, use.optimizer);
        expectSum(asked.norm, between.norm);
        expectSum(asked.update, between.update);
        expectSum(asked.after, between.after);
        if (between.initial > 0) {
          expectSum(asked.initial,
                    between.initial + use.optimizer + (made ? use.gradients : 0));
          ++larger;
        }
        if (software.normTemporaries > 0)
          EXPECT_GT(between.norm, 0) << spec;
        EXPECT_EQ(software.flattens, sum(asked.initial) > 0) << spec;
      }
    }
  EXPECT_GT(larger, 0);
}

//===-- predictions -------------------------------------------------------===//

/// The allocator takes nothing from tensors and adds what it keeps. How much that is depends on
/// sizes that fit each other, which isn't monotone to the last percent. Without it slots keep their
/// places all step, and what is gathered is counted step by step.
TEST(CachedMemory, IsWhatTheAllocatorHoldsBeyondTensors) {
  Cluster on = cluster("dgx-a100"), caches = on;
  caches.software.cachingAllocator = true;
  Problem problem = transformer({4, 1024, 16, 512, 32, 8192});
  struct Case {
    const char *spec;
    bool isPlaced = false, isGathered = false;
  };
  for (auto [spec, isPlaced, isGathered] :
       {Case{.spec = "dp=4,tp=1,pp=1,zero=3,recompute=none", .isGathered = true},
        Case{.spec = "dp=4,tp=1,pp=1,zero=1,recompute=full"},
        Case{.spec = "dp=1,tp=2,pp=2,schedule=zb,zero=0,recompute=none", .isPlaced = true},
        Case{.spec = "dp=1,tp=1,pp=4,schedule=1f1b,zero=0,recompute=full", .isPlaced = true}}) {
    MemoryUse last;
    for (int64_t micro : {1, 2, 4}) {
      std::string full = std::string(spec) + ",micro_batch=" + std::to_string(micro);
      MemoryUse with = predicted(problem, caches, 4, full).memory,
                without = predicted(problem, on, 4, full).memory;
      if (isPlaced)
        EXPECT_LT(with.allocated(), without.allocated()) << full;
      else if (isGathered)
        EXPECT_GT(with.allocated(), without.allocated()) << full;
      else
        EXPECT_EQ(with.allocated(), without.allocated()) << full;
      EXPECT_EQ(without.cached, 0) << full;
      EXPECT_GE(with.cached, 0) << full;
      EXPECT_GT(with.allocated(), last.allocated()) << full;
      EXPECT_GT(double(with.total()), 0.99 * double(last.total())) << full;
      last = with;
    }
    EXPECT_GT(last.cached, 0) << spec;
  }
}

/// Where a device is full, the cache is given back; where tensors alone are too large,
/// the plan doesn't fit.
TEST(CachedMemory, GivesWayBeforeAPlanDoesNotFit) {
  Cluster on = cluster("dgx-a100");
  on.software.cachingAllocator = true;
  on.software.flattens = true; // an update takes tensors as large as all parameters
  on.software.updateTemporaries = 2;
  Problem problem = transformer({4, 1024, 16, 512, 32, 8192});
  const std::string spec = "dp=1,tp=1,pp=1,zero=0,recompute=none,micro_batch=4";
  Prediction roomy = predicted(problem, on, 1, spec);
  int64_t tensors = roomy.memory.allocated() + roomy.memory.reserved;
  ASSERT_GT(roomy.memory.cached, tensors / 50);
  int smaller = 0, failed = 0;
  for (int i = 1; i <= 20; ++i) {
    on.device.memoryBytes = double(roomy.memory.total() - roomy.memory.cached * i / 20);
    Prediction tight = predicted(problem, on, 1, spec);
    smaller += tight.fits() && tight.memory.cached < roomy.memory.cached;
    failed += !tight.fits();
    EXPECT_LE(tight.memory.cached, roomy.memory.cached);
    if (!tight.fits())
      EXPECT_EQ(tight.memory.cached, roomy.memory.cached) << "what it would hold";
  }
  EXPECT_GT(smaller, 0);
  EXPECT_GT(failed, 0);
  on.device.memoryBytes = double(tensors) * 0.99;
  EXPECT_FALSE(predicted(problem, on, 1, spec).fits());
}

/// A search replays less of plans that don't fit, and refuses and tells the same.
TEST(CachedMemory, OfPlansThatFitIsTheSameWithLessDetail) {
  Cluster on = cluster("dgx-a100");
  on.software.cachingAllocator = true;
  on.software.compiled = false; // so that variables hold tensors
  const FoundStages of(best(transformer({4, 1024, 16, 512, 32, 8192}), 1,
                            "dp=1,tp=1,pp=1,zero=0,recompute=full,micro_batch=16", on),
                       on);
  const PlannedModel planned{of.found.problem, of.facts, of.blocks,
                             of.found.problem.numMicrobatches};
  auto with = [&](MemoryDetail detail) {
    return *predict(planned, of.found.plan, on, nullptr, detail);
  };
  const MemoryUse roomy = with(MemoryDetail::Exact).memory;
  int fitting = 0, less = 0;
  for (int i = 0; i <= 20; ++i) {
    on.device.memoryBytes = double(roomy.total()) - double(roomy.cached) * i / 15;
    Prediction exact = with(MemoryDetail::Exact), quick = with(MemoryDetail::IfItFits);
    ASSERT_EQ(exact.fits(), quick.fits()) << i;
    ASSERT_EQ(exact.fits(), with(MemoryDetail::WhetherItFits).fits()) << i;
    fitting += exact.fits();
    less += quick.memory.cached < exact.memory.cached;
    if (exact.fits())
      EXPECT_EQ(exact, quick) << i;
  }
  EXPECT_GT(fitting, 0);
  EXPECT_GT(less, 0);
}
