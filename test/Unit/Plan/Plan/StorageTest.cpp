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
  std::vector<OpId> firstOps = {0}; // of what lies before the blocks, of blocks, and of the head
  for (const Block &block : all)
    firstOps.push_back(block.first);
  firstOps.push_back(all.back().last + 1);
  Plan plan = of.plan;
  plan.degrees.zeroBlocks = static_cast<int64_t>(blocks);
  std::map<std::string, ValueId> parameters = parametersByName(of.problem);
  for (ParameterStorage &storage : plan.storage) {
    int part = onlyReader(parameters.at(storage.parameter), firstOps, facts);
    setZeroLevel(storage, plan.degrees.zero - (part <= static_cast<int>(blocks) ? 0 : 1),
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

/// From one level to the other, ever less is held and ever more exchanged. That begins with the
/// third block, as two are on their way at a time.
TEST(Storage, BlocksTakeAPlanFromOneLevelToTheOther) {
  Problem problem = transformer({8, 1024, 8, 512, 64, 8192});
  constexpr double kTableBytes = 8192 * 512 * 4.0;
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
    // The peak is at the head: parts of two tables' gradients lie beside whole ones, and what was
    // scattered last waits to be added up. Arenas have all three (test_memory.py).
    EXPECT_LE(usedBy(higher.predicted), usedBy(last) + 3 * kTableBytes / 16);
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
    // In both passes of four microbatches: three blocks, and what lies before them by itself.
    if (use.kind == dtc::sharding::StepKind::AllGather && use.count == 2 * (3 + 1) * 4)
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

/// What one block reads in its forward pass and another in its backward pass is gathered for both.
/// Neither block stores it by its own level.
TEST(Storage, WhatABackwardPassReadsElsewhereHasTheHigherLevel) {
  Problem problem = transformer({4, 64, 4, 16, 16, 128});
  std::vector<Block> blocks = findBlocks(problem, ProblemFacts(problem));
  std::map<std::string, ValueId> parameters = parametersByName(problem);
  ValueId first = parameters.at("h.0.q"), last = parameters.at("h.3.q");
  for (Op &op : problem.ops)
    if (op.backward == BackwardKind::InputGrad)
      std::replace(op.operands.begin(), op.operands.end(), last, first);
  ProblemFacts facts(problem);
  std::vector<OpId> firstOps = {0};
  for (const Block &block : blocks)
    firstOps.push_back(block.first);
  EXPECT_EQ(onlyReader(first, firstOps, facts), -1);
  EXPECT_EQ(onlyReader(last, firstOps, facts), static_cast<int>(blocks.size()));
  ParameterStorage storage{"h.0.q", {}, {}, {}, {}};
  storage.use.dims.resize(2); // a matrix: numbers aren't split
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
}
