// Plans that store some blocks by one level of ZeRO and the rest by the level below.
#include "Planner.h"
#include "Transformer.h"

#include "dtc/Plan/Plan/Storage.h"
#include "dtc/Plan/Plan/Verify.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

/// Nodes of 8 H100 whose network is too slow to gather parameters for nothing.
Cluster slowNodes() {
  Cluster on = cluster("dgx-h100");
  for (LinkLevel &level : on.levels)
    if (level.size == 0 || level.size > on.devicesPerNode)
      level.bandwidth = level.alone = 3e9;
  return on;
}

/// Bytes of tensors.
double usedBy(const Prediction &predicted) { return double(predicted.memory.allocated()); }

/// A plan of one stage whose first blocks are stored by its level, with what lies before them,
/// and the rest by the one below.
Plan mixedPlan(const SearchResult &of, size_t blocks) {
  ProblemFacts facts(of.problem);
  std::vector<Block> all = findBlocks(of.problem, facts);
  HigherLevel higher{{0}, {true}};
  for (size_t i = 0; i < all.size(); ++i) {
    higher.firstOps.push_back(all[i].first);
    higher.isHigher.push_back(i < blocks);
  }
  higher.firstOps.push_back(all.back().last + 1);
  higher.isHigher.push_back(false);
  Plan plan = of.plan;
  plan.degrees.zeroBlocks = static_cast<int64_t>(blocks);
  std::map<std::string, ValueId> parameters = parametersByName(of.problem);
  for (ParameterStorage &storage : plan.storage) {
    bool isHigher = higher.has(parameters.at(storage.parameter), facts);
    setZeroLevel(storage, plan.degrees.zero - (isHigher ? 0 : 1),
                 storageAxes(plan.degrees, plan.mesh));
  }
  return plan;
}

size_t blocksIn(const SearchResult &of) {
  return findBlocks(of.problem, ProblemFacts(of.problem)).size();
}

const char *const kOneStage =
    "dp=16,tp=1,pp=1,cp=1,ep=1,micro_batch=1,offload=none,zero_group=16";

SearchResult ofLevel(const Problem &problem, int zero, const Cluster &on) {
  return best(problem, 16,
              std::string(kOneStage) + ",recompute=none,zero=" + std::to_string(zero), on);
}

} // namespace

/// From one level to the other, ever less is held and ever more exchanged: from the third
/// block on, as two are on their way at a time.
TEST(Storage, BlocksTakeAPlanFromOneLevelToTheOther) {
  Problem problem = transformer({8, 1024, 8, 512, 64, 8192});
  Cluster on = slowNodes();
  for (int zero : {2, 3}) {
    SearchResult higher = ofLevel(problem, zero, on), lower = ofLevel(problem, zero - 1, on);
    Prediction last = lower.predicted;
    for (size_t blocks = 3; blocks <= blocksIn(higher); ++blocks) {
      Plan plan = mixedPlan(higher, blocks);
      for (const Violation &violation : verify(higher.problem, plan, on))
        ADD_FAILURE() << violation.message;
      Prediction predicted = predict(higher.problem, plan, on);
      EXPECT_LT(usedBy(predicted), usedBy(last)) << zero << " " << blocks;
      EXPECT_GE(predicted.stepSeconds, last.stepSeconds * (1 - 1e-9)) << zero << " " << blocks;
      last = predicted;
    }
    EXPECT_LT(usedBy(higher.predicted), usedBy(last)); // the head
    EXPECT_GT(higher.predicted.stepSeconds, last.stepSeconds);
  }
}

/// Of N parameters of a block in bf16, level 3 holds 2 N / ranks where level 2 holds 2 N.
TEST(Storage, ABlockSplitHoldsItsPartAndOneOnItsWay) {
  Problem problem = transformer({8, 1024, 8, 512, 64, 8192});
  Cluster on = slowNodes();
  SearchResult all = ofLevel(problem, 3, on);
  int64_t whole = 0, first = 0;
  std::vector<Block> blocks = findBlocks(all.problem, ProblemFacts(all.problem));
  ProblemFacts facts(all.problem);
  for (ValueId value = 0; value < all.problem.arguments; ++value)
    if (all.problem.values[value].kind == ValueKind::Parameter) {
      whole += all.problem.values[value].bytes();
      if (facts.consumers[value].front() <= blocks[2].last)
        first += all.problem.values[value].bytes();
    }
  Prediction three = predict(all.problem, mixedPlan(all, 3), on);
  EXPECT_NEAR(double(three.memory.parameters), double(whole - first) + double(first) / 16,
              1e-3 * double(whole));
  int64_t gathered = 0;
  for (const CollectiveUse &use : three.collectives)
    if (use.kind == dtc::sharding::StepKind::AllGather && use.count == 2 * 3 * 4)
      gathered += use.count * use.bytes;
  EXPECT_NEAR(double(gathered), 2 * 4 * double(first), 1e-2 * double(first));
}

/// A table of positions is used as the sequence is split, over cp: the other ranks share the part.
TEST(Storage, WhatCpSplitsIsSharedByTheOtherRanks) {
  SearchResult found = best(transformer({2, 256, 8, 2048, 8, 1024}), 8,
                            "dp=4,tp=1,pp=1,cp=2,ep=1,zero=3,recompute=none,micro_batch=1",
                            slowNodes());
  ParameterStorage &storage = found.plan.storage.front();
  const auto isRefused = [&] {
    std::vector<Violation> violations = verify(found.problem, found.plan, slowNodes());
    return std::any_of(violations.begin(), violations.end(), [](const Violation &violation) {
      return violation.message.find("ranks, by the plan's degrees it is") != std::string::npos;
    });
  };
  const auto shareAmong = [&](const std::string &degree) {
    setZeroLevel(storage, 3, found.plan.mesh.ofDegree(degree));
    return !isRefused();
  };
  EXPECT_FALSE(isRefused());
  EXPECT_FALSE(shareAmong("dp"));
  storage.use.dims[0] = found.plan.mesh.ofDegree("cp");
  EXPECT_TRUE(shareAmong("dp"));
}

/// What several units read has the higher level in each stage, whatever the stage stores so.
TEST(Storage, TiedWeightsHaveTheHigherLevel) {
  WeightClass higher;
  higher.open = true;
  higher.level = WeightClass::Level::Higher;
  higher.tables = std::make_shared<WeightClass::Tables>(4);
  higher.shared = std::make_shared<WeightClass::Tables>(4);
  higher.tables->parameters.addToStagesWith({0}, 1);
  higher.tables->parameters.addToStagesWith({1}, 10);
  higher.tables->parameters.addToStagesWith({3}, 100);
  for (auto &tables : {higher.tables, higher.shared}) {
    tables->parameters.addToStagesWith({0, 3}, 1000);
    tables->finish();
  }
  WeightClass lower = higher;
  lower.level = WeightClass::Level::Lower;
  auto bytes = [&](int begin, int end, int zeroEnd) {
    StageRun run(begin, end);
    run.zeroEnd = zeroEnd;
    return std::pair(higher.parameters(run), lower.parameters(run));
  };
  EXPECT_EQ(bytes(0, 4, 0), std::pair(int64_t{1000}, int64_t{111}));
  EXPECT_EQ(bytes(0, 4, 1), std::pair(int64_t{1001}, int64_t{110}));
  EXPECT_EQ(bytes(0, 4, 4), std::pair(int64_t{1111}, int64_t{0}));
  EXPECT_EQ(bytes(2, 4, 2), std::pair(int64_t{1000}, int64_t{100}));
  EXPECT_EQ(bytes(1, 3, 2), std::pair(int64_t{10}, int64_t{0}));
}

/// What one block reads in its forward pass and another in its backward pass is gathered for
/// both: neither block stores it by its own level.
TEST(Storage, WhatABackwardPassReadsElsewhereHasTheHigherLevel) {
  Problem problem = transformer({4, 64, 4, 16, 16, 128});
  std::vector<Block> blocks = findBlocks(problem, ProblemFacts(problem));
  std::map<std::string, ValueId> parameters = parametersByName(problem);
  ValueId first = parameters.at("h.0.q"), last = parameters.at("h.3.q");
  for (Op &op : problem.ops)
    if (op.backward == BackwardKind::InputGrad)
      std::replace(op.operands.begin(), op.operands.end(), last, first);
  ProblemFacts facts(problem);
  HigherLevel higher{{0}, {false}};
  for (const Block &block : blocks) {
    higher.firstOps.push_back(block.first);
    higher.isHigher.push_back(false);
  }
  EXPECT_TRUE(higher.has(first, facts));
  EXPECT_FALSE(higher.has(last, facts));
  ParameterStorage storage{"h.0.q", {}, {}, {}, {}};
  setZeroLevel(storage, 3, {0});
  EXPECT_EQ(blocksOfLevel(3, problem, facts, blocks, {storage}),
            std::vector<bool>(blocks.size(), false));
  storage.parameter = "h.3.q";
  EXPECT_TRUE(blocksOfLevel(3, problem, facts, blocks, {storage}).back());
}

TEST(Storage, SurvivesWritingAndReading) {
  Problem problem = transformer({4, 64, 4, 16, 16, 128});
  Cluster on = slowNodes();
  SearchResult all = ofLevel(problem, 3, on);
  Plan plan = mixedPlan(all, 2);
  auto read = planFromYaml(toYaml(plan, all.problem), "plan.yaml", all.problem);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, plan);
  EXPECT_EQ(predict(all.problem, *read, on), predict(all.problem, plan, on));
  EXPECT_NE(summary(plan.degrees).find("zero=3 (2 blocks)"), std::string::npos)
      << summary(plan.degrees);
  EXPECT_TRUE(unimplemented(plan).empty());
}

/// No other number of blocks stored by the higher level or recomputed is faster within the
/// same memory.
TEST(Storage, NoOtherNumbersOfBlocksAreFaster) {
  Problem problem = transformer({6, 1024, 8, 512, 64, 8192});
  Cluster on = slowNodes();
  for (int zero : {2, 3}) {
    SearchResult all = ofLevel(problem, zero, on), below = ofLevel(problem, zero - 1, on);
    Degrees degrees = all.plan.degrees;
    // With more room, one level is as good.
    for (double share : zero == 2 ? std::vector<double>{0.15, 0.25, 0.35, 0.5}
                                  : std::vector<double>{0.05, 0.1, 0.15, 0.25}) {
      Cluster tight = on;
      tight.device.memoryBytes = (1 - share) * double(all.predicted.memory.total()) +
                                 share * double(below.predicted.memory.total());
      Planner planner(problem, tight, 16);
      degrees.recompute = Recompute::Full;
      degrees.sp = false;
      Estimate estimate;
      std::string error, text = summary(degrees) + " " + std::to_string(share);
      ASSERT_EQ(planner.estimator.estimate(degrees, {}, {1e9, false, true, true}, estimate, error),
                Estimator::Outcome::Found)
          << text;
      auto chosen = completePlan(problem, tight, planner.shardings, estimate);
      ASSERT_TRUE(chosen) << chosen.error().message;
      EXPECT_GT(chosen->plan.degrees.zeroBlocks, 0) << text;
      EXPECT_TRUE(chosen->predicted.fits()) << text;
      double room = std::max(usedBy(chosen->predicted), 0.97 * estimate.capacity);
      int compared = 0;
      for (size_t blocks = 1; blocks <= blocksIn(all); ++blocks)
        for (int64_t recomputed = 0; recomputed <= int64_t(blocksIn(all)); ++recomputed) {
          Plan other = mixedPlan(all, blocks);
          for (int64_t block = 0; block < recomputed; ++block)
            other.recompute.push_back({block, Recompute::Full});
          Prediction predicted = predict(all.problem, other, tight);
          if (usedBy(predicted) > room)
            continue;
          EXPECT_GE(predicted.stepSeconds, chosen->predicted.stepSeconds * (1 - 1e-3))
              << text << ": " << blocks << " blocks, " << recomputed << " recomputed";
          ++compared;
        }
      EXPECT_GE(compared, 4) << text;
    }
  }
}

/// Some memory is left free only where it can be.
TEST(Storage, FillsMemoryToTheLastWhereNothingElseFits) {
  Problem problem = transformer({32, 1024, 8, 512, 64, 1024});
  Cluster on = slowNodes();
  SearchResult all = ofLevel(problem, 3, on);
  Degrees degrees = all.plan.degrees;
  degrees.sp = false;
  double fullest = 0;
  for (double share = 0.98; share < 1.2; share += 0.005) {
    Cluster tight = on;
    tight.device.memoryBytes = share * double(all.predicted.memory.total());
    Planner planner(problem, tight, 16);
    Estimate estimate;
    std::string error;
    if (planner.estimator.estimate(degrees, {}, {1e9, false, false, true}, estimate, error) !=
        Estimator::Outcome::Found)
      continue;
    EXPECT_TRUE(estimate.fits()) << share;
    fullest = std::max(fullest, estimate.memory / estimate.capacity);
  }
  EXPECT_GT(fullest, 0.98);
}

/// What a search reckons with is what its plan costs, of each stage for itself.
TEST(Storage, EstimatesAgreeWithPredictions) {
  struct Case {
    Problem problem;
    int64_t pp, chunks;
    std::vector<int> levels;
    std::vector<double> shares; ///< of what the lower level takes more
  };
  const Problem dense = transformer({16, 2048, 16, 1024, 256, 32768});
  for (const Case &each :
       {Case{dense, 1, 1, {2, 3}, {0.4, 0.7}}, Case{dense, 2, 1, {2, 3}, {0.4, 0.7}},
        // More parameters and fewer activations.
        Case{transformer({16, 4096, 32, 256, 256, 8192}), 4, 1, {2, 3}, {0.4, 0.7}},
        Case{transformer({24, 4096, 32, 64, 256, 1024}), 2, 2, {2}, {0.4, 0.7}},
        Case{load("moe"), 1, 1, {2, 3}, {0.7}}})
    for (int zero : each.levels)
      for (double share : each.shares) {
        const Problem &problem = each.problem;
        Cluster on = slowNodes();
        Degrees degrees{.dp = 16 / each.pp, .pp = each.pp, .zero = zero};
        degrees.chunks = each.chunks;
        degrees.schedule =
            each.chunks > 1 ? ScheduleKind::Interleaved : ScheduleKind::OneFOneB;
        degrees.numMicrobatches = 4 * each.pp;
        std::string error, text = summary(degrees) + " " + std::to_string(share);
        auto memoryOf = [&](int level) {
          Degrees one = degrees;
          one.zero = level;
          Estimate estimate;
          EXPECT_TRUE(Planner(problem, on, 16).carriedOut(one, estimate)) << text;
          return std::pair(estimate.memory, estimate.capacity);
        };
        auto [least, capacity] = memoryOf(zero);
        on.device.memoryBytes -=
            capacity - ((1 - share) * least + share * memoryOf(zero - 1).first) / 0.97;
        Planner planner(problem, on, 16);
        Estimate estimate;
        ASSERT_EQ(planner.estimator.estimate(degrees, {}, {1e9, false, false, true}, estimate,
                                             error),
                  Estimator::Outcome::Found)
            << text;
        auto whole = completePlan(problem, on, planner.shardings, estimate);
        ASSERT_TRUE(whole) << text << whole.error().message;
        Result<Problem> planned = unfoldPlan(planner.shardings, *whole);
        ASSERT_TRUE(planned) << text << planned.error().message;
        for (const Violation &violation : verify(*planned, whole->plan, on))
          ADD_FAILURE() << text << ": " << violation.message;
        const Prediction &predicted = whole->predicted;
        EXPECT_NEAR(estimate.seconds, predicted.stepSeconds, 0.01 * predicted.stepSeconds)
            << text;
        EXPECT_NEAR(estimate.memory, usedBy(predicted), 0.02 * usedBy(predicted)) << text;
        EXPECT_GT(whole->plan.degrees.zeroBlocks, 0) << text;
      }
}

TEST(Storage, IsFasterThanEitherLevel) {
  Problem problem = transformer({16, 2048, 16, 1024, 128, 32768});
  Cluster on = slowNodes();
  Prediction two = ofLevel(problem, 2, on).predicted, three = ofLevel(problem, 3, on).predicted;
  on.device.memoryBytes = 0.5 * double(two.memory.total() + three.memory.total());
  std::string rest = std::string(kOneStage) + ",recompute=none";
  SearchResult mixed = best(problem, 16, rest, on);
  EXPECT_EQ(mixed.plan.degrees.zero, 3);
  EXPECT_GT(mixed.plan.degrees.zeroBlocks, 0) << summary(mixed.plan.degrees);
  EXPECT_LE(mixed.plan.degrees.zeroBlocks, 16);
  EXPECT_TRUE(mixed.predicted.fits());
  // An accumulator has its parameter's name, as this target now.
  for (Value &value : problem.values)
    if (value.kind == ValueKind::Target)
      value.name = mixed.plan.storage[2].parameter;
  EXPECT_EQ(best(problem, 16, rest, on).plan, mixed.plan);
  for (int zero = 0; zero <= 3; ++zero) {
    auto all = found(problem, 16, rest + ",zero=" + std::to_string(zero), on);
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_EQ(all->plan.degrees.zeroBlocks, 0) << zero;
    EXPECT_EQ(all->predicted.fits(), zero == 3) << zero;
    if (zero == 3)
      EXPECT_LT(mixed.predicted.stepSeconds, 0.9 * all->predicted.stepSeconds)
          << summary(mixed.plan.degrees);
  }
}
