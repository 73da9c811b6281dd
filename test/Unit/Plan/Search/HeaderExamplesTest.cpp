// The figures that headers show in their examples.
#include "Planner.h"
#include "Search/CutPositions.h"
#include "Transformer.h"

#include "dtc/Plan/Search/RankStages.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;
using dtc::sharding::AxisList;
using dtc::sharding::Mesh;
using dtc::sharding::OpSharding;

namespace {

/// y = tanh(x w) v in bf16 on <tp=4>. Of the factors of a product, s is 1, k is 2 and n is 3.
struct TwoProducts {
  TwoProducts() {
    ProblemBuilder builder;
    ValueId x = builder.argument(ValueKind::Input, {4, 1024, 2048});
    ValueId w = builder.argument(ValueKind::Parameter, {2048, 8192});
    ValueId v = builder.argument(ValueKind::Parameter, {8192, 2048});
    ValueId h = builder.pointwise(builder.contract(x, w));
    problem = builder.finish({builder.contract(h, v)}, 4);
    for (Value &value : problem.values)
      value.type = DType::BF16;
  }

  /// An op with tp on one factor, or on none.
  OpSharding split(OpId op, int factor) const {
    OpSharding choice;
    choice.factors.resize(problem.ops[op].rule->factors.size());
    if (factor >= 0)
      choice.factors[factor] = AxisList{0};
    return choice;
  }

  Problem problem;
  Mesh mesh{{{"tp", "tp", 4}}};
};

/// A GPT of 16 layers of width 2048, whose ranks take four samples in a microbatch, on 8 H100s.
struct GptExamples : ::testing::Test {
  Degrees degrees(int64_t dp, int64_t tp, int64_t pp, int64_t zero = 0) const {
    Degrees result;
    result.dp = dp;
    result.tp = tp;
    result.pp = pp;
    result.zero = zero;
    result.microBatch = 4;
    result.numMicrobatches = problem.batch / (4 * dp);
    return result;
  }

  Problem problem = transformer({16, 2048, 16, 1024, 64, 32768});
  Cluster on = cluster("dgx-h100");
  Planner planner{problem, on, 8};
};

} // namespace

TEST(HeaderExamples, WorkOfAProduct) {
  TwoProducts example;
  ProblemFacts facts(example.problem);
  CostModel model(cluster("dgx-h100"), 4);
  OpWork work(example.problem, facts, model);
  struct Row {
    int factor;
    double flops, bytes, seconds;
    int64_t n, k;
  };
  for (const Row &row :
       {Row{-1, 137e9, 117e6, 222e-6, 8192, 2048}, Row{3, 34e9, 42e6, 59e-6, 2048, 2048},
        Row{2, 34e9, 80e6, 61e-6, 8192, 512}}) {
    OpSharding choice = example.split(0, row.factor);
    LocalWork local = work.work(0, choice, example.mesh);
    EXPECT_NEAR(local.flops, row.flops, 0.5e9);
    EXPECT_NEAR(local.bytes, row.bytes, 0.5e6);
    EXPECT_EQ(local.m, 4096);
    EXPECT_EQ(local.n, row.n);
    EXPECT_EQ(local.k, row.k);
    EXPECT_NEAR(work.seconds(0, choice, example.mesh), row.seconds, 0.5e-6);
  }
}

TEST(HeaderExamples, ShardingOfTwoProducts) {
  TwoProducts example;
  ProblemFacts facts(example.problem);
  Cluster on = cluster("dgx-h100");
  CostModel model(on, 4);
  OpWork work(example.problem, facts, model);
  auto seconds = [&](OpId op, int factor) {
    return work.seconds(op, example.split(op, factor), example.mesh);
  };
  using dtc::sharding::StepKind;
  constexpr double bytes = 4.0 * 1024 * 2048 * 2; // of x, and of y
  double slice = model.collectiveSeconds(StepKind::Slice, {0}, bytes, example.mesh);
  double sum = model.collectiveSeconds(StepKind::AllReduce, {0}, bytes, example.mesh);
  EXPECT_NEAR(seconds(1, 1), 13e-6, 0.5e-6);
  EXPECT_NEAR(seconds(1, 2), 13e-6, 0.5e-6);
  EXPECT_NEAR(seconds(2, 1), 63e-6, 0.5e-6);
  EXPECT_NEAR(seconds(2, 2), 59e-6, 0.5e-6);
  EXPECT_NEAR(slice, 4.8e-6, 0.05e-6);
  EXPECT_NEAR(sum, 128e-6, 0.5e-6);
  double rows = slice + seconds(0, 1) + seconds(1, 1) + seconds(2, 1);
  double columns = seconds(0, 3) + seconds(1, 2) + seconds(2, 2) + sum;
  EXPECT_NEAR(rows, 140e-6, 0.5e-6);
  EXPECT_NEAR(columns, 258e-6, 0.5e-6);

  Degrees degrees;
  degrees.tp = 4;
  degrees.microBatch = 4;
  auto solved = ShardingSolver(example.problem, facts, on, degrees, {}).solve();
  ASSERT_TRUE(solved) << solved.error().message;
  EXPECT_EQ(solved->gap, 0);
  EXPECT_NEAR(solved->seconds, rows, 1e-9);
  for (OpId op = 0; op < 3; ++op)
    EXPECT_EQ(solved->plan.ops[op].factors, example.split(op, 1).factors);
}

TEST_F(GptExamples, StageOfEachLevelOfZero) {
  struct Row {
    int zero;
    double parameters, gradients, gathered, gather, scattered, scatter; // MB and ms
  };
  for (const Row &row :
       {Row{1, 738, 1476, 738, 3.0, 1476, 5.9}, Row{2, 738, 369, 738, 3.0, 1476, 3.5},
        Row{3, 185, 369, 738, 2.0, 1476, 3.5}}) {
    Degrees asked = degrees(4, 1, 2, row.zero);
    auto cuts = cutPositions(problem, planner.facts, planner.shardings.getBlocks(), 2);
    std::string error;
    const ShardCosts *shard = planner.shardings.get(asked, {}, cuts, error);
    ASSERT_TRUE(shard) << error;
    RankStages stages({&planner.shardings, shard, asked, &cuts});
    std::vector<StageRun> runs = {StageRun(0, stages.unitCosts.units() / 2)};
    auto cost = stages.costs.stage(runs[0]);
    EXPECT_NEAR(cost.forward.compute, 6.1e-3, 0.05e-3);
    EXPECT_NEAR(cost.savedBytes, 1.96e9, 0.005e9);
    if (row.zero == 1)
      EXPECT_NEAR(cost.inputGrad.compute + cost.weightGrad.compute, 12.6e-3, 0.05e-3);
    MemoryUse use = stages.costs.staticBytes(runs);
    EXPECT_NEAR(double(use.parameters), row.parameters * 1e6, 0.5e6);
    EXPECT_NEAR(double(use.gradients), row.gradients * 1e6, 0.5e6);
    EXPECT_NEAR(double(use.optimizer), 1107e6, 0.5e6);
    ASSERT_EQ(stages.costs.getClasses().size(), 1u);
    const WeightClass &weights = stages.costs.getClasses()[0];
    auto gather = row.zero == 3 ? stages.costs.gather(weights, runs[0], false)
                                : stages.costs.regather(weights, runs[0]);
    auto scatter = row.zero == 1 ? *stages.costs.reductions(weights, runs[0]).begin()
                                 : stages.costs.scatter(weights, runs[0]);
    EXPECT_NEAR(gather.bytes, row.gathered * 1e6, 0.5e6);
    EXPECT_NEAR(gather.seconds, row.gather * 1e-3, 0.05e-3);
    EXPECT_NEAR(scatter.bytes, row.scattered * 1e6, 0.5e6);
    EXPECT_NEAR(scatter.seconds, row.scatter * 1e-3, 0.05e-3);
  }
}

TEST_F(GptExamples, EstimatesAndTheirBounds) {
  auto bound = [&](const Degrees &of) {
    std::string error;
    return planner.estimator.lowerBound(of, {}, error);
  };
  auto expect = [&](const Degrees &of, double floor, double seconds, double memory,
                    double capacity) {
    Estimate estimate;
    std::string error;
    EXPECT_NEAR(bound(of), floor, 0.05e-3);
    ASSERT_EQ(planner.estimator.estimate(of, {}, {1e9}, estimate, error),
              Estimator::Outcome::Found);
    EXPECT_NEAR(estimate.seconds, seconds, 0.05e-3);
    EXPECT_NEAR(estimate.memory, memory, 0.05e9);
    EXPECT_NEAR(estimate.capacity, capacity, 0.05e9);
  };
  expect(degrees(8, 1, 1), 84.5e-3, 101.3e-3, 20.3e9, 84.1e9);
  expect(degrees(4, 1, 2, 1), 96.5e-3, 117.1e-3, 8.4e9, 83.8e9);
  EXPECT_NEAR(bound(degrees(4, 2, 1)), 102.8e-3, 0.05e-3);
  EXPECT_NEAR(bound(degrees(2, 4, 1)), 133.1e-3, 0.05e-3);
}

TEST_F(GptExamples, ShardingsThatManyDegreesShare) {
  struct Row {
    Degrees degrees;
    double forward, backward; // ms
  };
  for (const Row &row : {Row{degrees(8, 1, 1), 14.1, 28.1}, Row{degrees(4, 1, 2, 1), 14.1, 28.1},
                         Row{degrees(2, 1, 4, 3), 14.1, 28.1}, Row{degrees(4, 2, 1), 9.0, 16.7},
                         Row{degrees(2, 2, 2), 9.0, 16.7}, Row{degrees(2, 4, 1), 6.2, 10.5}}) {
    auto cuts = cutPositions(problem, planner.facts, planner.shardings.getBlocks(), row.degrees.pp);
    std::string error;
    const ShardCosts *shard = planner.shardings.get(row.degrees, {}, cuts, error);
    ASSERT_TRUE(shard) << error;
    const UnitCosts &costs = shard->unitCosts(Recompute::None, cuts);
    PassSeconds seconds = costs.seconds(0, costs.units());
    EXPECT_NEAR(seconds.forward, row.forward * 1e-3, 0.05e-3);
    EXPECT_NEAR(seconds.backward(), row.backward * 1e-3, 0.05e-3);
  }
  EXPECT_EQ(planner.shardings.solves(), 3);
}
