#include "Costs.h"

#include "dtc/Schedule/ForwardPasses.h"

#include <cmath>

using namespace dtc::simulate;
using dtc::schedule::ScheduleKind;
using dtc::schedule::ScheduleShape;

//===----------------------------------------------------------------------===//
// What the literature says of equal stages and free communication
//===----------------------------------------------------------------------===//

TEST(Simulate, BubbleOfOneFOneBAndGPipe) {
  for (ScheduleKind kind : {ScheduleKind::GPipe, ScheduleKind::OneFOneB})
    for (int64_t ranks : {1, 2, 4, 7})
      for (int64_t microbatches : {1, 3, 8, 32}) {
        ScheduleShape shape{kind, ranks, 1, microbatches};
        Timeline timeline = run(shape, equalStages(shape));
        EXPECT_DOUBLE_EQ(timeline.stepSeconds, 3.0 * double(microbatches + ranks - 1));
        EXPECT_NEAR(timeline.bubbleFraction,
                    double(ranks - 1) / double(microbatches + ranks - 1), 1e-12);
        EXPECT_EQ(timeline.exposedSeconds, 0);
      }
}

/// Narayanan et al. 2021: chunks divide the time lost in the bubble.
TEST(Simulate, InterleavingDividesTheBubble) {
  for (int64_t chunks : {1, 2, 4}) {
    ScheduleShape shape{ScheduleKind::Interleaved, 4, chunks, 16};
    double part = 1.0 / double(chunks);
    Timeline timeline = run(shape, equalStages(shape, part, part, part));
    EXPECT_NEAR(timeline.stepSeconds, 3 * (16 + 3 * part), 1e-9) << chunks;
    EXPECT_NEAR(timeline.bubbleFraction, 3 * part / (16 + 3 * part), 1e-9) << chunks;
  }
}

/// Qi et al. 2023, table 2: (P - 1) (F + B - W) instead of (P - 1) (F + B + W).
TEST(Simulate, ZeroBubbleLosesAThird) {
  for (int64_t ranks : {1, 2, 4, 8}) {
    ScheduleShape split{ScheduleKind::ZeroBubble, ranks, 1, 16};
    ScheduleShape whole{ScheduleKind::OneFOneB, ranks, 1, 16};
    EXPECT_DOUBLE_EQ(run(split, equalStages(split)).stepSeconds, 48.0 + double(ranks - 1));
    EXPECT_DOUBLE_EQ(run(whole, equalStages(whole)).stepSeconds, 48.0 + 3 * double(ranks - 1));
  }
}

/// Qi et al. 2023, section 6: the pipeline fills twice as fast, and then no rank waits.
TEST(Simulate, ZeroBubbleVOnlyFills) {
  for (int64_t ranks : {1, 2, 4, 8}) {
    ScheduleShape shape{ScheduleKind::ZeroBubbleV, ranks, 2, 16};
    EXPECT_DOUBLE_EQ(run(shape, equalStages(shape, 0.5, 0.5, 0.5)).stepSeconds,
                     48 + 0.5 * double(ranks - 1));
  }
}

/// Without a backward pass only filling the pipeline takes longer, and chunks divide that.
TEST(Simulate, ForwardPassesOnlyFill) {
  for (int64_t chunks : {1, 2, 4}) {
    ScheduleShape shape{chunks == 1 ? ScheduleKind::OneFOneB : ScheduleKind::Interleaved, 4, chunks,
                        16};
    double part = 1.0 / double(chunks);
    Costs costs = equalStages(shape, part, 0, 0);
    Timeline timeline = simulate(*makeSchedule(shape, /*trains=*/false), costs);
    EXPECT_NEAR(timeline.stepSeconds, 16 + 3 * part, 1e-9) << chunks;
    EXPECT_LE(lowerBound(shape, costs), timeline.stepSeconds) << chunks;
    EXPECT_EQ(timeline.exposedSeconds, 0) << chunks;
  }
}

/// A rank that is faster than the next one waits once their boxes are full, two of each.
TEST(Simulate, ForwardPassesDontPileUp) {
  ScheduleShape shape{ScheduleKind::OneFOneB, 2, 1, 64};
  Costs costs = equalStages(shape, 1, 0, 0);
  costs.stages[1].forward.compute = 3;
  for (auto &stage : costs.stages)
    stage.savedBytes = 0;
  costs.boundaries[0] = {8, 0, 64, 0.125, 0};
  Timeline timeline = simulate(*makeSchedule(shape, /*trains=*/false), costs);
  EXPECT_DOUBLE_EQ(timeline.stepSeconds, 1.25 + 3 * 64);
  EXPECT_LE(timeline.ranks[1].peakBytes, 4 * 8);
  EXPECT_LE(lowerBound(shape, costs), timeline.stepSeconds);
}

/// Where messages take a while, room for more microbatches hides what 1F1B's order waits for.
TEST(Simulate, ListSchedulingHidesLatency) {
  auto seconds = [](ScheduleKind kind) {
    ScheduleShape shape{kind, 8, 1, 32};
    Costs costs = equalStages(shape);
    for (Boundary &boundary : costs.boundaries)
      boundary.latency = 0.5;
    return run(shape, costs).stepSeconds;
  };
  EXPECT_LT(seconds(ScheduleKind::ListScheduled), 0.92 * seconds(ScheduleKind::ZeroBubble));
}

/// Where a rank keeps one microbatch, they follow each other, which the lower bound knows.
TEST(Simulate, OneKeptMicrobatchIsOneAtATime) {
  ScheduleShape shape{ScheduleKind::ListScheduled, 4, 1, 16, /*kept=*/1};
  Costs costs = equalStages(shape);
  const double roundTrip = 4 * (1 + 1), weights = 1;
  EXPECT_NEAR(run(shape, costs).stepSeconds, 16 * (roundTrip + weights), 1e-9);
  EXPECT_NEAR(lowerBound(shape, costs), 16 * (roundTrip + weights), 1e-6);
}

//===----------------------------------------------------------------------===//
// One rank
//===----------------------------------------------------------------------===//

TEST(Simulate, OneRankMakesItsCallsInARow) {
  ScheduleShape shape{ScheduleKind::OneFOneB, 1, 1, 3};
  Costs costs = equalStages(shape, 2, 3, 4);
  costs.stages[0].forward.blocking = 0.5;
  costs.stages[0].recompute = {2, 0.25, 0};
  costs.ranks[0].prologue = {1, 0.125, 0};
  costs.ranks[0].update = {5, 0.5, 0.25};
  Timeline timeline = run(shape, costs);
  EXPECT_DOUBLE_EQ(timeline.stepSeconds, 1.125 + 3 * (2.5 + 2.25 + 3 + 4) + 5.75);
  EXPECT_DOUBLE_EQ(timeline.ranks[0].computeSeconds, 1 + 3 * (2 + 2 + 3 + 4) + 5);
  EXPECT_DOUBLE_EQ(timeline.exposedSeconds, 0.125 + 3 * (0.5 + 0.25) + 0.75);
  EXPECT_EQ(timeline.bubbleFraction, 0);
}

TEST(Simulate, ChunksOfOneRankSendNothing) {
  ScheduleShape shape{ScheduleKind::Interleaved, 1, 3, 2};
  Costs costs = equalStages(shape);
  for (Boundary &boundary : costs.boundaries)
    boundary = {100, 100, 1, 10, 0};
  Timeline timeline = run(shape, costs, true);
  EXPECT_DOUBLE_EQ(timeline.stepSeconds, 2 * 3 * 3);
  EXPECT_EQ(timeline.exposedSeconds, 0);
  for (const Event &event : timeline.events)
    EXPECT_LT(event.kind, EventKind::Overlapped);
}

//===----------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------===//

static const Event *find(const Timeline &timeline, EventKind kind, int rank, int microbatch) {
  for (const Event &event : timeline.events)
    if (event.kind == kind && event.rank == rank && event.microbatch == microbatch)
      return &event;
  return nullptr;
}

static void expectSpan(const Timeline &timeline, EventKind kind, int rank, int microbatch,
                       double begin, double end) {
  const Event *event = find(timeline, kind, rank, microbatch);
  ASSERT_TRUE(event) << int(kind) << " " << rank << " " << microbatch;
  EXPECT_DOUBLE_EQ(event->begin, begin) << int(kind) << " " << rank << " " << microbatch;
  EXPECT_DOUBLE_EQ(event->end, end) << int(kind) << " " << rank << " " << microbatch;
}

/// The drawing of Simulate.h.
TEST(Simulate, TwoRanksAsDrawn) {
  ScheduleShape shape{ScheduleKind::OneFOneB, 2, 1, 3};
  Costs costs = equalStages(shape);
  costs.boundaries[0] = {2, 2, 8, 0.25, 0};
  Timeline timeline = run(shape, costs, true);
  EXPECT_DOUBLE_EQ(timeline.stepSeconds, 14);
  expectSpan(timeline, EventKind::SendForward, 0, 0, 1, 1.5);
  expectSpan(timeline, EventKind::Forward, 1, 0, 1.5, 2.5);
  expectSpan(timeline, EventKind::Backward, 1, 1, 5.5, 7.5);
  expectSpan(timeline, EventKind::SendBackward, 1, 1, 7.5, 8);
  expectSpan(timeline, EventKind::Backward, 0, 1, 8, 10);
  expectSpan(timeline, EventKind::Forward, 1, 2, 8.5, 9.5);
  expectSpan(timeline, EventKind::Backward, 0, 2, 12, 14);
  // Rank 0 waits for B0 and B2, half a second each while they are on their way.
  EXPECT_DOUBLE_EQ(timeline.ranks[0].exposedSeconds, 1);
  EXPECT_DOUBLE_EQ(timeline.ranks[0].idleSeconds, 4);
  // Rank 1 waits for F0 and F2; B2 is the last it does.
  EXPECT_DOUBLE_EQ(timeline.ranks[1].exposedSeconds, 1);
  EXPECT_DOUBLE_EQ(timeline.ranks[1].idleSeconds, 4);
  EXPECT_DOUBLE_EQ(timeline.exposedSeconds, 1);
  EXPECT_DOUBLE_EQ(timeline.bubbleFraction, 8.0 / 28);
}

TEST(Simulate, BlockingSendsKeepTheSender) {
  ScheduleShape shape{ScheduleKind::GPipe, 2, 1, 2};
  Costs costs = equalStages(shape);
  costs.boundaries[0] = {3, 3, 1, 0, 0};
  costs.blockingSends = true;
  Timeline timeline = run(shape, costs, true);
  expectSpan(timeline, EventKind::SendForward, 0, 0, 1, 4);
  expectSpan(timeline, EventKind::Forward, 0, 1, 4, 5);
  expectSpan(timeline, EventKind::SendForward, 0, 1, 5, 8);
  expectSpan(timeline, EventKind::Forward, 1, 1, 8, 9);
  expectSpan(timeline, EventKind::Backward, 1, 0, 9, 11);
  expectSpan(timeline, EventKind::Backward, 1, 1, 14, 16);
  expectSpan(timeline, EventKind::Backward, 0, 1, 19, 21);
  EXPECT_DOUBLE_EQ(timeline.stepSeconds, 21);
  // Rank 0: 3 + 3 of sending, then idle to 11, waiting 3, computing 2, waiting 3.
  EXPECT_DOUBLE_EQ(timeline.ranks[0].exposedSeconds, 12);
  EXPECT_DOUBLE_EQ(timeline.ranks[0].idleSeconds, 3);
  EXPECT_DOUBLE_EQ(timeline.ranks[1].exposedSeconds, 3 + 3 + 3 + 3);
}

/// Two forward results that follow each other faster than they travel share the link. The second
/// begins at 2, when half of the first is through.
TEST(Simulate, TransfersShareTheirLink) {
  ScheduleShape shape{ScheduleKind::GPipe, 2, 1, 2};
  Costs costs = equalStages(shape);
  costs.stages[1].forward.compute = 0;
  costs.boundaries[0] = {2, 0, 1, 0, 0};
  Timeline timeline = run(shape, costs, true);
  expectSpan(timeline, EventKind::SendForward, 0, 0, 1, 4);
  expectSpan(timeline, EventKind::SendForward, 0, 1, 2, 5);
}

/// Both directions of a link are independent.
TEST(Simulate, DirectionsDoNotShare) {
  ScheduleShape shape{ScheduleKind::OneFOneB, 2, 1, 2};
  Costs costs = equalStages(shape);
  costs.boundaries[0] = {4, 4, 4, 0, 0};
  costs.stages[0].forward.compute = 3; // F0 is sent at 3, F1 at 6 as B0's gradient is
  costs.stages[1].forward.compute = 1;
  costs.stages[1].inputGrad.compute = 1;
  costs.stages[1].weightGrad.compute = 0;
  Timeline timeline = run(shape, costs, true);
  expectSpan(timeline, EventKind::SendForward, 0, 1, 6, 7);
  expectSpan(timeline, EventKind::SendBackward, 1, 0, 6, 7);
}

/// A rank between two others sends to both over its own port, unless they are
/// on links of different levels.
TEST(Simulate, LevelsDoNotShare) {
  ScheduleShape shape{ScheduleKind::OneFOneB, 3, 1, 2};
  auto sendsOfRank1 = [&](int level) {
    Costs costs = equalStages(shape, 1, 0, 0);
    costs.stages[1].forward.compute = 3;
    costs.stages[2].forward.compute = 1;
    // At 7, F1 and B0 of rank 1 are over: it sends forward and backward.
    costs.boundaries[0] = {0, 0.5, 1, 0, 0};
    costs.boundaries[1] = {0.125, 0, 1, 0, level};
    Timeline timeline = run(shape, costs, true);
    const Event *first = find(timeline, EventKind::SendBackward, 1, 0);
    return first->end - first->begin;
  };
  EXPECT_DOUBLE_EQ(sendsOfRank1(1), 0.5);
  EXPECT_DOUBLE_EQ(sendsOfRank1(0), 0.625);
}

//===----------------------------------------------------------------------===//
// Overlap
//===----------------------------------------------------------------------===//

TEST(Simulate, OverlapHidesTheShorterAndSlowsBothDown) {
  ScheduleShape shape{ScheduleKind::GPipe, 1, 1, 1};
  Costs costs = equalStages(shape, 4, 0, 0);
  costs.slowdown = {1.25, 2};
  costs.stages[0].forward.overlapped = 1;
  // The communication takes 2, in which 1.6 of the computation are done.
  Timeline timeline = run(shape, costs, true);
  EXPECT_DOUBLE_EQ(timeline.stepSeconds, 2 + 2.4);
  EXPECT_NEAR(timeline.exposedSeconds, 0.4, 1e-12);
  expectSpan(timeline, EventKind::Overlapped, 0, 0, 0, 2);
  // The computation takes 5, in which 2.5 of the communication are done.
  costs.stages[0].forward.overlapped = 3;
  timeline = run(shape, costs, true);
  EXPECT_DOUBLE_EQ(timeline.stepSeconds, 5 + 0.5);
  EXPECT_DOUBLE_EQ(timeline.exposedSeconds, 1.5);
}

/// A collective and a transfer on links of one level share them.
TEST(Simulate, CollectivesAndTransfersShareALevel) {
  ScheduleShape shape{ScheduleKind::GPipe, 2, 1, 2};
  auto step = [&](int level, EventKind kind) {
    Costs costs = equalStages(shape, 1, 0, 0);
    costs.stages[0].forward.overlapped = 1;
    costs.stages[0].level = level;
    costs.boundaries[0] = {1, 0, 1, 0, 0};
    Timeline timeline = run(shape, costs, true);
    const Event *event = find(timeline, kind, 0, kind == EventKind::SendForward ? 0 : 1);
    return event->end - event->begin;
  };
  EXPECT_DOUBLE_EQ(step(1, EventKind::SendForward), 1);
  EXPECT_DOUBLE_EQ(step(1, EventKind::Overlapped), 1);
  EXPECT_DOUBLE_EQ(step(0, EventKind::SendForward), 2);
  EXPECT_DOUBLE_EQ(step(0, EventKind::Overlapped), 2);
}

TEST(Simulate, ReductionOverlapsTheLastBackwardPass) {
  ScheduleShape shape{ScheduleKind::OneFOneB, 1, 1, 2};
  Costs costs = equalStages(shape);
  costs.stages[0].reductionSeconds = 4;
  auto exposed = [&](double overlap) {
    costs.stages[0].reductionOverlap = overlap;
    Timeline timeline = run(shape, costs);
    EXPECT_DOUBLE_EQ(timeline.stepSeconds, 6 + timeline.exposedSeconds);
    return timeline.exposedSeconds;
  };
  EXPECT_DOUBLE_EQ(exposed(0), 4);
  EXPECT_DOUBLE_EQ(exposed(0.25), 3);
  EXPECT_DOUBLE_EQ(exposed(0.5), 2);
  EXPECT_DOUBLE_EQ(exposed(1), 2); // the backward pass takes 2
}

/// With chunks, the gradients of the later ones are summed beside the backward
/// passes of the earlier ones.
TEST(Simulate, ReductionOfChunksIsHiddenBehindOthers) {
  ScheduleShape shape{ScheduleKind::Interleaved, 2, 2, 4};
  Costs costs = equalStages(shape);
  double alone = run(shape, costs).stepSeconds;
  for (int stage : {2, 3})
    costs.stages[stage].reductionSeconds = 2;
  EXPECT_DOUBLE_EQ(run(shape, costs).stepSeconds, alone);
  for (int stage : {0, 1})
    costs.stages[stage].reductionSeconds = 2;
  EXPECT_DOUBLE_EQ(run(shape, costs).stepSeconds, alone + 2);
}

/// ZB-H1: gradients are there with the last weight gradient, not before.
TEST(Simulate, ReductionFollowsTheWeightGradient) {
  ScheduleShape shape{ScheduleKind::ZeroBubble, 2, 1, 4};
  Costs costs = equalStages(shape);
  costs.stages[1].reductionSeconds = 1;
  Timeline timeline = run(shape, costs, true);
  const Event *last = find(timeline, EventKind::WeightGrad, 1, 3);
  const Event *sum = find(timeline, EventKind::Reduction, 1, -1);
  ASSERT_TRUE(last && sum);
  EXPECT_DOUBLE_EQ(sum->begin, last->end);
}

TEST(Simulate, JointUpdateWaitsForTheSlowestRank) {
  ScheduleShape shape{ScheduleKind::OneFOneB, 2, 1, 4};
  Costs costs = equalStages(shape);
  costs.ranks[0].update.compute = 1;
  costs.ranks[1].update.compute = 3;
  EXPECT_DOUBLE_EQ(run(shape, costs).stepSeconds, 15 + 1); // rank 1 is done at 13 + 3
  costs.jointUpdate = true;
  Timeline timeline = run(shape, costs);
  EXPECT_DOUBLE_EQ(timeline.stepSeconds, 15 + 3);
  EXPECT_DOUBLE_EQ(timeline.ranks[1].idleSeconds, 18 - 12 - 3);
  EXPECT_EQ(timeline.exposedSeconds, 0);
}

//===----------------------------------------------------------------------===//
// Uneven stages, and what can't be simulated
//===----------------------------------------------------------------------===//

TEST(Simulate, TheSlowestStageSetsThePace) {
  ScheduleShape shape{ScheduleKind::OneFOneB, 4, 1, 64};
  Costs costs = equalStages(shape);
  costs.stages[2].forward.compute = 2;
  costs.stages[2].inputGrad.compute = 2;
  costs.stages[2].weightGrad.compute = 2;
  Timeline timeline = run(shape, costs);
  // 64 microbatches of 6, before and after them two stages of 1 and 2. After its two first forward
  // passes it waits for the last stage's first gradient, 1 long.
  EXPECT_DOUBLE_EQ(timeline.stepSeconds, 64 * 6 + 2 * 1 + 2 * 2 + 1);
  EXPECT_DOUBLE_EQ(timeline.ranks[2].idleSeconds, 7);
}

TEST(Simulate, ListsThatWaitForEverAreAnError) {
  ScheduleShape shape{ScheduleKind::OneFOneB, 2, 1, 2};
  auto schedule = *dtc::schedule::makeSchedule(shape);
  std::swap(schedule.calls[0][0], schedule.calls[0][2]);
  Timeline timeline = dtc::simulate::simulate(schedule, equalStages(shape));
  EXPECT_EQ(timeline.error, "rank 0 waits for ever before call 0");
  EXPECT_TRUE(std::isinf(timeline.stepSeconds));
}

TEST(Simulate, ListsThatLeadOutOfTheTablesAreAnError) {
  ScheduleShape shape{ScheduleKind::OneFOneB, 2, 1, 2};
  auto schedule = *dtc::schedule::makeSchedule(shape);
  schedule.calls[1][1].microbatch = 2;
  EXPECT_EQ(dtc::simulate::simulate(schedule, equalStages(shape)).error,
            "a call's chunk or microbatch is out of range: chunk 0, microbatch 2");
  schedule.calls.pop_back();
  EXPECT_EQ(dtc::simulate::simulate(schedule, equalStages(shape)).error,
            "there must be a list of calls for each rank, got 1");
}

TEST(Simulate, RefusesCostsThatCannotBe) {
  ScheduleShape shape{ScheduleKind::OneFOneB, 2, 1, 2};
  auto expectRefused = [&](auto change, const std::string &message) {
    Costs costs = equalStages(shape);
    change(costs);
    EXPECT_EQ(check(shape, costs), message);
    EXPECT_EQ(lowerBound(shape, costs), 0);
    Timeline timeline = dtc::simulate::simulate(*dtc::schedule::makeSchedule(shape), costs);
    EXPECT_EQ(timeline.error, message);
    EXPECT_TRUE(std::isinf(timeline.stepSeconds));
  };
  expectRefused([](Costs &c) { c.stages.pop_back(); }, "there must be 2 costs of a stage, got 1");
  expectRefused([](Costs &c) { c.boundaries.clear(); }, "there must be 1 costs of a boundary, got 0");
  expectRefused([](Costs &c) { c.ranks.emplace_back(); }, "there must be 2 costs of a rank, got 3");
  expectRefused([](Costs &c) { c.stages[1].forward.compute = -1; },
                "stage 1: seconds of work must be finite and not negative");
  expectRefused([](Costs &c) { c.stages[1].recompute.overlapped = NAN; },
                "stage 1: seconds of work must be finite and not negative");
  expectRefused([](Costs &c) { c.ranks[0].update.blocking = INFINITY; },
                "rank 0: seconds of work must be finite and not negative");
  expectRefused([](Costs &c) { c.stages[0].savedBytes = -1; },
                "stage 0: bytes must be finite and not negative");
  expectRefused([](Costs &c) { c.ranks[1].staticBytes = NAN; },
                "rank 1: bytes must be finite and not negative");
  expectRefused([](Costs &c) { c.stages[0].reductionSeconds = -1; },
                "stage 0: seconds of the gradient reduction must be finite and not negative");
  expectRefused([](Costs &c) { c.stages[0].reductionOverlap = 1.5; },
                "stage 0: the overlapping share of the gradient reduction must lie between 0 "
                "and 1");
  expectRefused([](Costs &c) { c.boundaries[0].forwardBytes = 1; },
                "boundary 0: bandwidth must be finite and positive where there are bytes to "
                "send");
  expectRefused([](Costs &c) { c.boundaries[0].bandwidth = INFINITY; },
                "boundary 0: bandwidth must be finite and positive where there are bytes to "
                "send");
  expectRefused([](Costs &c) { c.boundaries[0].backwardBytes = -1; },
                "boundary 0: bytes must be finite and not negative");
  expectRefused([](Costs &c) { c.boundaries[0].latency = -1; },
                "boundary 0: latency must be finite and not negative");
  expectRefused([](Costs &c) { c.boundaries[0].level = -1; },
                "boundary 0: level must not be negative");
  expectRefused([](Costs &c) { c.slowdown.compute = 0.5; },
                "slow-downs must lie between 1 and 1000");
  EXPECT_EQ(check({ScheduleKind::OneFOneB, 2, 2, 3}, {}),
            "schedule=1f1b has one chunk a rank, got 2");
}

/// Links of models that are faster than any there is.
TEST(Simulate, TakesAnyRateOfLinks) {
  ScheduleShape shape{ScheduleKind::OneFOneB, 2, 1, 4};
  Costs costs = equalStages(shape);
  double without = run(shape, costs).stepSeconds;
  costs.boundaries[0].forwardBytes = costs.boundaries[0].backwardBytes = 1e9;
  costs.boundaries[0].bandwidth = 1e24;
  EXPECT_NEAR(run(shape, costs).stepSeconds, without, 1e-9);
}

//===----------------------------------------------------------------------===//
// Placements
//===----------------------------------------------------------------------===//

/// The stages 0 and 3 are on rank 0, 1 and 2 on rank 1. Two of three messages of each direction
/// travel, the one from stage 1 to stage 2 doesn't.
TEST(Simulate, HandsOverWithinARankForNothing) {
  dtc::schedule::Schedule schedule;
  schedule.shape = {ScheduleKind::OneFOneB, 2, 2, 1};
  schedule.placement = dtc::schedule::Placement({{0, 3}, {1, 2}});
  schedule.slots = {{1, 1}, {1, 1}};
  using dtc::schedule::Pass;
  for (int rank = 0; rank < 2; ++rank)
    schedule.calls.push_back({{Pass::Forward, 0, 0},
                              {Pass::Forward, 1, 0},
                              {Pass::Backward, 1, 0},
                              {Pass::Backward, 0, 0}});
  Costs costs = equalStages(schedule.shape);
  for (Boundary &boundary : costs.boundaries)
    boundary = {.forwardBytes = 10, .backwardBytes = 10, .bandwidth = 10, .latency = 0.5};
  Timeline timeline = dtc::simulate::simulate(schedule, costs, {.trace = true});
  ASSERT_EQ(timeline.error, "");
  EXPECT_DOUBLE_EQ(timeline.stepSeconds, 4 * 1 + 4 * 2 + 4 * 1.5);
  int sent = 0;
  for (const Event &event : timeline.events) {
    sent += event.kind == EventKind::SendForward || event.kind == EventKind::SendBackward;
    if (event.kind == EventKind::Forward)
      EXPECT_EQ(event.stage, event.rank == 0 ? 3 * event.chunk : 1 + event.chunk);
  }
  EXPECT_EQ(sent, 4);
  // What is handed over is held from one call to the next, beside what both keep.
  EXPECT_DOUBLE_EQ(timeline.ranks[1].peakBytes, 1 + 10 + 1);
}

TEST(Simulate, PlacementsThatDoNotFitAreAnError) {
  ScheduleShape shape{ScheduleKind::OneFOneB, 2, 1, 2};
  auto schedule = *dtc::schedule::makeSchedule(shape);
  schedule.placement = dtc::schedule::Placement({{0, 1}});
  EXPECT_EQ(dtc::simulate::simulate(schedule, equalStages(shape)).error,
            "the placement must be of 2 x 1 stages");
  schedule.placement = dtc::schedule::Placement({{0}, {0}});
  EXPECT_EQ(dtc::simulate::simulate(schedule, equalStages(shape)).error, "stage 1 lies nowhere");
}
