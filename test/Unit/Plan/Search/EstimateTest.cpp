// What the search reckons with is what the chosen plan is predicted to cost.
#include "Planner.h"
#include "Search/CutPositions.h"
#include "Transformer.h"

#include "dtc/Plan/Plan/Verify.h"

#include <thread>

using dtc::ErrorCategory;
using namespace dtc::plan;
using namespace dtc::plan::testing;
namespace schedule = dtc::schedule;
namespace simulate = dtc::simulate;

/// No step takes less than the floor below which a search gives its degrees up.
static void expectFloor(Planner &planner, const Degrees &degrees, const Prediction &predicted) {
  std::string error;
  double floor = planner.estimator.lowerBound(degrees, {}, error);
  EXPECT_EQ(error, "") << summary(degrees);
  EXPECT_GT(floor, 0) << summary(degrees);
  EXPECT_LE(floor, predicted.stepSeconds) << summary(degrees);
}

/// Of products alone, whose two gradients take as long as they do. Ranks compute gradients of
/// weights all the while that the last microbatch goes back.
TEST(Estimate, NoZeroBubbleStepIsBelowItsFloor) {
  Problem problem = transformer({32, 1024, 16, 32, 64, 32});
  Cluster on = cluster("dgx-h100");
  on.device.architecture = Architecture::None;
  on.device.multiprocessors = 0;
  on.device.launchSeconds = 0;
  on.device.bandwidth = 1e18;
  on.device.achieved = {{DType::BF16, 1e12}, {DType::F32, 1e12}};
  on.levels = {{"link", 0, 1e18, 1e-15}};
  for (int64_t pp : {2, 4, 8, 16})
    for (int64_t times : {1, 2, 4}) {
      Planner planner(problem, on, pp);
      Degrees degrees;
      degrees.pp = pp;
      degrees.schedule = ScheduleKind::ZeroBubble;
      degrees.numMicrobatches = times * pp;
      degrees.microBatch = 64 / degrees.numMicrobatches;
      Estimate estimate;
      auto whole = planner.carriedOut(degrees, estimate);
      ASSERT_TRUE(whole) << whole.error().message;
      expectFloor(planner, degrees, whole->predicted);
      std::string error;
      EXPECT_GT(planner.estimator.lowerBound(degrees, {}, error),
                0.8 * whole->predicted.stepSeconds) << summary(degrees);
    }
}

/// (Sharding is estimated without the sums of gradients over dp. Where two
/// shardings are about as fast, those may decide for the other one.)
TEST(Estimate, AgreesWithThePrediction) {
  Problem problem = transformer({16, 2048, 16, 1024, 64, 32768});
  Cluster on = cluster("dgx-h100");
  Planner planner(problem, on, 16);
  for (const char *text :
       {"dp=16,tp=1,pp=1,zero=0,micro_batch=4", "dp=16,tp=1,pp=1,zero=3,micro_batch=1",
        "dp=4,tp=4,pp=1,zero=1,micro_batch=2", "dp=2,tp=2,pp=4,zero=1,micro_batch=1",
        "dp=2,tp=2,pp=4,zero=2,micro_batch=1,schedule=zb",
        "dp=4,tp=1,pp=4,zero=1,micro_batch=1,schedule=interleaved,chunks=4",
        "dp=1,tp=8,pp=2,zero=0,micro_batch=4,recompute=full",
        "dp=2,tp=2,pp=1,cp=4,zero=1,micro_batch=4,schedule=1f1b"}) {
    Spec spec = *parseSpec(text);
    Degrees degrees;
    degrees.dp = *spec.dp;
    degrees.tp = *spec.tp;
    degrees.pp = *spec.pp;
    degrees.cp = spec.cp.value_or(1);
    degrees.zero = *spec.zero;
    degrees.schedule = spec.schedule.value_or(ScheduleKind::OneFOneB);
    degrees.chunks = spec.chunks.value_or(1);
    degrees.recompute = spec.recompute.value_or(Recompute::None);
    degrees.microBatch = *spec.microBatch;
    degrees.numMicrobatches = 64 / (degrees.dp * degrees.microBatch);
    Estimate estimate;
    auto whole = planner.carriedOut(degrees, estimate);
    ASSERT_TRUE(whole) << text << ": " << whole.error().message;
    const Prediction &predicted = whole->predicted;
    EXPECT_NEAR(estimate.seconds, predicted.stepSeconds, 0.01 * predicted.stepSeconds) << text;
    double used = double(predicted.memory.allocated());
    EXPECT_NEAR(estimate.memory, used, 0.02 * used) << text;
    expectFloor(planner, degrees, predicted);
  }
}

TEST(Estimate, AgreesWithThePredictionWhereSomeBlocksAreRecomputed) {
  Problem problem = transformer({16, 2048, 16, 1024, 256, 32768});
  int mixed = 0;
  for (Recompute kind : {Recompute::Selective, Recompute::Full})
    for (auto [pp, chunks] : {std::pair<int64_t, int64_t>{1, 1}, {2, 1}, {4, 1}, {8, 1}, {4, 2}}) {
      Cluster on = cluster("dgx-h100");
      on.software.flashAttention = 0; // there is something to select
      Degrees degrees;
      degrees.dp = 16 / pp;
      degrees.pp = pp;
      degrees.zero = 1;
      degrees.schedule = chunks > 1 ? ScheduleKind::Interleaved : ScheduleKind::OneFOneB;
      degrees.chunks = chunks;
      degrees.microBatch = 4;
      degrees.numMicrobatches = 256 / (4 * degrees.dp);
      Estimate whole, estimate;
      std::string error;
      ASSERT_EQ(Planner(problem, on, 16).estimator.estimate(degrees, {}, {1e9}, whole, error),
                Estimator::Outcome::Found);
      // Not enough for all that is kept.
      on.device.memoryBytes -= whole.capacity - 0.85 * whole.memory;
      Planner planner(problem, on, 16);
      degrees.recompute = kind;
      ASSERT_EQ(planner.estimator.estimate(degrees, {}, {1e9, false, true}, estimate, error),
                Estimator::Outcome::Found)
          << summary(degrees) << error;
      std::string text = summary(estimate.degrees);
      mixed += estimate.degrees.recomputeBlocks > 0;
      auto completed = completePlan(problem, on, planner.shardings, estimate);
      ASSERT_TRUE(completed) << completed.error().message;
      const Prediction &predicted = completed->predicted;
      EXPECT_TRUE(predicted.fits()) << text;
      EXPECT_NEAR(estimate.seconds, predicted.stepSeconds, 0.01 * predicted.stepSeconds) << text;
      double used = double(predicted.memory.allocated());
      EXPECT_GE(estimate.memory, 0.99 * used) << text;
      EXPECT_LE(estimate.memory, 1.08 * used) << text;
      EXPECT_GT(predicted.stepSeconds, whole.seconds) << text;
      degrees.recompute = Recompute::None;
      expectFloor(planner, degrees, predicted);
    }
  EXPECT_GE(mixed, 6);
}

/// However slow links are: prices of stages don't know what a backward call's exchange hides behind.
TEST(Estimate, StepsWithinTheLimitAreFound) {
  Problem problem = transformer({8, 2048, 16, 1024, 64, 8192});
  for (double bandwidth : {1e9, 10e9, 100e9})
    for (int zero = 0; zero <= 3; ++zero)
      for (auto [pp, kind] : {std::pair<int64_t, ScheduleKind>{1, ScheduleKind::OneFOneB},
                              {2, ScheduleKind::OneFOneB},
                              {2, ScheduleKind::ZeroBubble},
                              {2, ScheduleKind::Interleaved}}) {
        Cluster on = cluster("dgx-h100");
        for (LinkLevel &level : on.levels)
          level.bandwidth = level.alone = bandwidth;
        Degrees degrees;
        degrees.dp = 16 / pp;
        degrees.pp = pp;
        degrees.zero = zero;
        degrees.schedule = kind;
        degrees.chunks = kind == ScheduleKind::Interleaved ? 2 : 1;
        degrees.numMicrobatches = 64 / degrees.dp;
        Planner planner(problem, on, 16);
        Estimate any, within;
        std::string error;
        ASSERT_EQ(planner.estimator.estimate(degrees, {}, {1e9}, any, error),
                  Estimator::Outcome::Found) << summary(degrees);
        EXPECT_EQ(planner.estimator.estimate(degrees, {}, {1.001 * any.seconds}, within, error),
                  Estimator::Outcome::Found) << summary(degrees) << " " << bandwidth;
      }
}

/// What the search skips once 1F1B, which holds least, can't fit.
TEST(Estimate, NothingFitsWhere1F1BCannot) {
  Problem problem = transformer({16, 2048, 16, 1024, 256, 32768});
  int fitting = 0, tooLarge = 0;
  for (double gigabytes : {1.5, 2.0, 2.5, 3.0, 4.0, 6.0}) {
    Cluster on = cluster("dgx-h100");
    on.device.memoryBytes = gigabytes * 1e9;
    Planner planner(problem, on, 16);
    Estimator &estimator = planner.estimator;
    for (int64_t pp : {2, 4, 8}) {
      Degrees least;
      least.dp = 16 / pp;
      least.pp = pp;
      least.zero = 1;
      least.microBatch = 1;
      least.numMicrobatches = 256 / least.dp;
      least.recompute = Recompute::Full;
      bool fits = estimator.mayFit(least, {}, true);
      ++(fits ? fitting : tooLarge);
      for (auto [kind, chunks] : {std::pair<ScheduleKind, int64_t>{ScheduleKind::OneFOneB, 1},
                                  {ScheduleKind::ZeroBubble, 1},
                                  {ScheduleKind::Interleaved, 2},
                                  {ScheduleKind::Interleaved, 4}}) {
        Degrees degrees = least;
        degrees.schedule = kind;
        degrees.chunks = chunks;
        if (pp * chunks > 16)
          continue;
        Estimate estimate;
        std::string error;
        auto outcome = estimator.estimate(degrees, {}, {1e9, false, true}, estimate, error);
        if (!fits)
          EXPECT_EQ(outcome, Estimator::Outcome::TooLarge) << gigabytes << summary(degrees);
        else if (kind == ScheduleKind::OneFOneB)
          EXPECT_EQ(outcome, Estimator::Outcome::Found) << gigabytes << summary(degrees);
      }
    }
  }
  EXPECT_GT(fitting, 2);
  EXPECT_GT(tooLarge, 2);
}

TEST(Estimate, AgreesWithThePredictionOfMixtures) {
  Problem problem = load("moe");
  Cluster on = cluster("dgx-h100");
  Planner planner(problem, on, 16);
  for (const Degrees &given : {Degrees{.dp = 1, .ep = 16}, {.dp = 4, .ep = 4, .zero = 1},
                               {.dp = 2, .tp = 2, .ep = 4, .zero = 3},
                               {.dp = 2, .pp = 2, .ep = 4, .zero = 2},
                               {.dp = 8, .ep = 2, .zero = 3, .zeroGroup = 4}}) {
    Degrees degrees = given;
    degrees.numMicrobatches = 64 / (degrees.dp * degrees.ep);
    Estimate estimate;
    std::string text = summary(degrees);
    auto whole = planner.carriedOut(degrees, estimate);
    ASSERT_TRUE(whole) << text << ": " << whole.error().message;
    Result<Problem> planned = unfoldPlan(planner.shardings, *whole);
    ASSERT_TRUE(planned) << text << ": " << planned.error().message;
    for (const Violation &violation : verify(*planned, whole->plan, on))
      ADD_FAILURE() << text << ": " << violation.message;
    const Prediction &predicted = whole->predicted;
    EXPECT_NEAR(estimate.seconds, predicted.stepSeconds, 0.01 * predicted.stepSeconds) << text;
    double used = double(predicted.memory.allocated());
    EXPECT_NEAR(estimate.memory, used, 0.02 * used) << text;
    expectFloor(planner, degrees, predicted);
  }
}

TEST(Estimate, LongSchedulesAreTheirRhythm) {
  Problem problem = transformer({16, 2048, 16, 1024, 1024, 32768});
  Cluster on = cluster("dgx-h100");
  Planner planner(problem, on, 16);
  for (auto [schedule, chunks] : {std::pair(ScheduleKind::OneFOneB, 1),
                                  {ScheduleKind::ZeroBubble, 1}, {ScheduleKind::Interleaved, 2}})
    for (int64_t pp : {1, 4, 8}) {
      if (pp == 1 && schedule != ScheduleKind::OneFOneB)
        continue;
      Degrees degrees;
      degrees.dp = 16 / pp;
      degrees.pp = pp;
      degrees.schedule = schedule;
      degrees.chunks = chunks;
      degrees.zero = 2;
      degrees.numMicrobatches = 1024 / degrees.dp;
      std::string text = summary(degrees);
      Estimate estimate;
      auto whole = planner.carriedOut(degrees, estimate);
      ASSERT_TRUE(whole) << text << whole.error().message;
      const Prediction &predicted = whole->predicted;
      EXPECT_NEAR(estimate.seconds, predicted.stepSeconds, 0.003 * predicted.stepSeconds) << text;
      double used = double(predicted.memory.allocated());
      EXPECT_GE(estimate.memory, 0.99 * used) << text;
      // Another rank may hold more of it, and less data.
      EXPECT_LE(estimate.memory,
                1.035 * double(predicted.memory.total() - predicted.memory.reserved)) << text;
    }
}

/// Ranks before and after a slow one run ahead until they hold all that they may: only then is
/// its pace theirs.
TEST(Estimate, LongStepsHaveThePaceOfTheSlowestRank) {
  for (int64_t ranks : {4, 8})
    for (int64_t chunks : {2, 4})
      for (int64_t slow = 0; slow < ranks; slow += ranks / 4)
        for (double times : {1.05, 1.1, 1.3}) {
          schedule::ScheduleShape shape{ScheduleKind::Interleaved, ranks, chunks, 24 * ranks};
          simulate::Costs costs;
          for (int64_t stage = 0; stage < shape.stages(); ++stage) {
            double seconds = stage % ranks == slow ? times : 1;
            simulate::StageCost &cost = costs.stages.emplace_back();
            cost.forward.compute = cost.inputGrad.compute = cost.weightGrad.compute = seconds;
          }
          costs.boundaries.resize(size_t(shape.stages() - 1));
          costs.ranks.resize(size_t(ranks));
          double exact = simulate::simulate(*makeSchedule(shape), costs).stepSeconds;
          double estimate = StepEstimates(/*trains=*/true).estimate(shape, costs).seconds;
          EXPECT_NEAR(estimate, exact, 0.015 * exact) << ranks << " " << chunks << " " << slow;
        }
}

/// So slow a link that the simulator refuses it.
TEST(Estimate, SaysWhyAStepCannotBe) {
  Problem problem = transformer({4, 256, 8, 64, 8, 256});
  Cluster on = cluster("dgx-h100");
  on.levels = {{"link", 0, 1e-16, 1e-6}};
  Planner planner(problem, on, 2);
  Degrees degrees;
  degrees.pp = 2;
  degrees.numMicrobatches = 8;
  Estimate estimate;
  std::string error;
  EXPECT_EQ(planner.estimator.estimate(degrees, {}, {1e30, true}, estimate, error),
            Estimator::Outcome::Impossible);
  EXPECT_EQ(error,
            "boundary 0: bandwidth must be finite and positive where there are bytes to send");
  auto planned = found(problem, 2, "pp=2", on);
  ASSERT_FALSE(planned);
  EXPECT_EQ(planned.error().category, ErrorCategory::NoFit);
}

TEST(Estimate, AgreesWithThePredictionOnSeveralDeviceTypes) {
  Problem problem = transformer({16, 2048, 16, 1024, 64, 32768});
  Cluster on = clusterOf({"node: dgx-h100, nodes: 1", "node: dgx-a100, nodes: 1"});
  Planner planner(problem, on, 16);
  for (int64_t pp : {1, 2, 4, 8})
    for (int zero : {0, 1, 3}) {
      Degrees degrees;
      degrees.dp = 16 / pp;
      degrees.pp = pp;
      degrees.zero = zero;
      degrees.numMicrobatches = 64 / degrees.dp;
      std::string text = summary(degrees);
      Estimate estimate;
      auto whole = planner.carriedOut(degrees, estimate);
      ASSERT_TRUE(whole) << text << whole.error().message;
      EXPECT_NEAR(estimate.seconds, whole->predicted.stepSeconds,
                  0.02 * whole->predicted.stepSeconds) << text;
      expectFloor(planner, degrees, whole->predicted);
    }
}

/// Degrees that don't fill nodes of 6, or three nodes of 4 below a switch. Groups are torn apart
/// alike whether a mesh is seen with the other ranks or without them.
TEST(Estimate, AgreesWithThePredictionWhereGroupsStraddleNodes) {
  Problem problem = transformer({12, 3072, 24, 3072, 144, 24576});
  Cluster sixes = cluster("dgx-h100"), threes = sixes;
  sixes.devicesPerNode = 6;
  sixes.levels = {{"inside", 6, 450e9, 3e-6}, {"between", 0, 50e9, 14e-6}};
  threes.devicesPerNode = 4;
  threes.levels = {
      {"inside", 4, 450e9, 3e-6}, {"leaf", 12, 50e9, 14e-6}, {"spine", 0, 25e9, 20e-6}};
  int compared = 0;
  for (const auto &[on, devices] : {std::pair<const Cluster &, int64_t>{sixes, 12}, {threes, 24}}) {
    Planner planner(problem, on, devices);
    for (int64_t tp : {1, 2, 3, 4, 6, 8, 12})
      for (int64_t cp : {1, 2, 3})
        for (int64_t pp : {1, 2, 3, 4}) {
          if (devices % (tp * cp * pp) != 0)
            continue;
          Degrees degrees = {.dp = devices / (tp * cp * pp), .tp = tp, .pp = pp, .cp = cp};
          degrees.numMicrobatches = 144 / degrees.dp;
          Estimate estimate;
          auto whole = planner.carriedOut(degrees, estimate);
          ASSERT_TRUE(whole) << summary(degrees) << ": " << whole.error().message;
          double seconds = whole->predicted.stepSeconds;
          EXPECT_NEAR(estimate.seconds, seconds, 1e-3 * seconds) << on.levels.size() << " "
                                                                 << summary(degrees);
          expectFloor(planner, degrees, whole->predicted);
          ++compared;
        }
  }
  EXPECT_GE(compared, 60);
}

/// Of a pipeline, the first stage has the inputs of all microbatches and the last the targets.
TEST(Estimate, HasDataWhereItIsRead) {
  Problem problem = transformer({8, 64, 4, 1024, 512, 64});
  constexpr int64_t inputs = 512 * 1024 * 64 * 2, targets = 512 * 1024 * 8;
  Cluster on = cluster("dgx-h100");
  Degrees degrees;
  degrees.pp = 4;
  degrees.numMicrobatches = 512;
  Estimate estimate;
  auto whole = Planner(problem, on, 4).carriedOut(degrees, estimate);
  ASSERT_TRUE(whole) << whole.error().message;
  std::vector<int64_t> data;
  for (const StagePrediction &stage : whole->predicted.stages)
    data.push_back(stage.memory.data);
  EXPECT_EQ(data, (std::vector<int64_t>{inputs, 0, 0, targets}));
  // There is room for them, but not for both anywhere.
  on.device.memoryBytes = double(whole->predicted.memory.total() + targets / 2);
  Planner tight(problem, on, 4);
  std::string error;
  EXPECT_EQ(tight.estimator.estimate(degrees, {}, {1e9, false}, estimate, error),
            Estimator::Outcome::Found)
      << error;
}

/// So are buffers, and those from which tables are computed wherever these are read.
TEST(Estimate, HasBuffersWhereTheyAreRead) {
  constexpr int64_t table = 4096 * 1024 * 2;
  const TransformerSize size = {6, 1024, 8, 4096, 8, 1024};
  TransformerSize buffered = size;
  buffered.buffers = true;
  Problem problem = transformer(buffered);
  Cluster on = cluster("dgx-h100");
  for (auto [pp, chunks] : {std::pair<int64_t, int64_t>{1, 1}, {3, 1}, {3, 2}}) {
    Degrees degrees = {.pp = pp, .chunks = chunks};
    degrees.schedule = chunks > 1 ? ScheduleKind::Interleaved : ScheduleKind::OneFOneB;
    degrees.numMicrobatches = 6;
    Estimate estimate;
    auto whole = Planner(problem, on, pp).carriedOut(degrees, estimate);
    ASSERT_TRUE(whole) << whole.error().message;
    int64_t layers = 0;
    for (int64_t rank = 0; rank < pp; ++rank) {
      const StagePrediction &stage = whole->predicted.stages[rank];
      int64_t own = 0, parameters = 0;
      for (size_t i = rank; i < whole->predicted.stages.size(); i += pp) {
        const StagePrediction &each = whole->predicted.stages[i];
        own += each.firstLayer < 0 ? 0 : each.lastLayer - each.firstLayer + 1;
        parameters += each.parameters;
      }
      // Its layers' own, the computed one, and of the first the positions.
      EXPECT_EQ(stage.memory.parameters,
                2 * parameters + (own + 1 + (rank == 0)) * table)
          << pp << " " << chunks << " " << rank;
      layers += own;
    }
    EXPECT_EQ(layers, size.layers) << pp << " " << chunks;
    double used = double(whole->predicted.memory.allocated());
    EXPECT_NEAR(estimate.memory, used, 0.02 * used) << pp << " " << chunks;
  }
  // There is room for a rank's, but not for all of them on each.
  SearchResult found = best(problem, 4, "dp=1,tp=1,pp=4,recompute=none,micro_batch=1", on);
  on.device.memoryBytes = double(found.predicted.memory.total() + table / 2);
  EXPECT_TRUE(best(problem, 4, "dp=1,tp=1,pp=4,recompute=none,offload=none", on).predicted.fits());
}

/// A layer's weights that no gradient reaches are stored as the plan says, and have neither
/// gradient nor states.
TEST(Estimate, AgreesWithThePredictionWhereNothingTrainsAParameter) {
  Problem trained = transformer({4, 1024, 16, 256, 64, 1024}), problem = trained;
  std::erase_if(problem.results, [](const FunctionResult &result) {
    return result.kind == ResultKind::Gradient && result.name.find("h.") == 0;
  });
  ASSERT_LT(problem.results.size(), trained.results.size());
  Cluster on = cluster("dgx-h100");
  for (int zero : {0, 1, 3}) {
    Degrees degrees;
    degrees.dp = 8;
    degrees.zero = zero;
    degrees.numMicrobatches = 8;
    Estimate estimate;
    auto whole = Planner(problem, on, 8).carriedOut(degrees, estimate);
    ASSERT_TRUE(whole) << whole.error().message;
    const MemoryUse &memory = whole->predicted.memory;
    int64_t head = 1024 * 1024, all = 4 * 12 * head + head;
    EXPECT_EQ(memory.parameters, 2 * all / (zero == 3 ? 8 : 1)) << zero;
    EXPECT_EQ(memory.gradients, 4 * head / (zero == 3 ? 8 : 1)) << zero;
    EXPECT_EQ(memory.optimizer, 12 * head / (zero >= 1 ? 8 : 1)) << zero;
    EXPECT_NEAR(estimate.memory, double(memory.allocated()), 0.01 * estimate.memory) << zero;
    EXPECT_NEAR(estimate.seconds, whole->predicted.stepSeconds, 0.01 * estimate.seconds) << zero;
  }
}

/// What is solved ahead, on several threads, is what is solved when it is asked for.
TEST(Estimate, SolvingAheadChangesNothing) {
  for (int64_t layers : {2, 16}) { // in full, and folded
    Problem problem = transformer({layers, 1024, 16, 512, 16, 8192});
    Cluster on = cluster("dgx-h100");
    SearchOptions options = optionsOf(8);
    ShardLibrary ahead(problem, on, options), later(problem, on, options);
    EXPECT_EQ(ahead.getFolding() != nullptr, layers == 16);
    std::vector<OpId> cuts = cutPositions(problem, ahead.getFacts(), ahead.getBlocks(), 1);
    std::vector<ShardLibrary::Asked> list;
    for (int64_t tp : {1, 2, 4, 8})
      for (int64_t cp : {1, 2})
        if (tp * cp <= 8)
          list.push_back({{.dp = 8 / (tp * cp), .tp = tp, .cp = cp, .microBatch = 2}, &cuts});
    ahead.solveAhead(list, {});
    EXPECT_EQ(ahead.solves(), int64_t(list.size()));
    for (const ShardLibrary::Asked &asked : list) {
      const Degrees &degrees = asked.degrees;
      std::string error;
      const ShardCosts *first = ahead.get(degrees, {}, cuts, error);
      const ShardCosts *second = later.get(degrees, {}, cuts, error);
      ASSERT_TRUE(first && second) << summary(degrees) << error;
      EXPECT_EQ(first->getPlan(), second->getPlan()) << summary(degrees);
      auto seconds = [&](const ShardCosts *costs) {
        const UnitCosts &unitCosts = costs->unitCosts(degrees.recompute, cuts);
        return unitCosts.seconds(0, unitCosts.units()).forward;
      };
      EXPECT_EQ(seconds(first), seconds(second)) << summary(degrees);
    }
    EXPECT_EQ(ahead.solves(), later.solves());
  }
}
