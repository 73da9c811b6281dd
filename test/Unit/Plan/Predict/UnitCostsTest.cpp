// Stages cut out of an execution: their seconds and bytes.
#include "Search/CutPositions.h"
#include "Transformer.h"

#include "dtc/Plan/Predict/Recomputation.h"
#include "dtc/Plan/Predict/UnitCosts.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

class ProfileTest : public ::testing::Test {
protected:
  Problem problem = transformer({6, 512, 8, 256, 4, 4096});
  ProblemFacts facts{problem};
  Cluster on = cluster("dgx-h100");
  CostModel model{on, 1};
  Plan plan = solveSharding(problem, facts, on, Degrees{})->plan;
  RankExecution execution{problem, facts, plan, model};
  std::vector<Block> blocks = findBlocks(problem, facts);

  UnitCosts cutAt(std::vector<OpId> cuts) const {
    return UnitCosts(problem, facts, execution, plan.mesh, std::move(cuts));
  }
};

} // namespace

TEST_F(ProfileTest, TheWholeModelIsTheExecution) {
  ASSERT_EQ(blocks.size(), 5u) << "the first layer reads an input, which no layer makes";
  UnitCosts whole = cutAt({0, facts.lastForward + 1});
  UnitCosts fine = cutAt(cutPositions(problem, facts, blocks, 4));
  EXPECT_GE(fine.units(), 6);
  double seconds = 0;
  for (const ExecutionStep &step : execution.steps)
    seconds += step.seconds;
  for (const UnitCosts *unitCosts : {&whole, &fine}) {
    int end = unitCosts->units();
    EXPECT_EQ(unitCosts->peakBytes(0, end), peakBytes(execution));
    PassSeconds all = unitCosts->seconds(0, end);
    EXPECT_NEAR(all.forward + all.backward(), seconds, 1e-9 * seconds);
  }
  EXPECT_EQ(whole.savedBytes(0, 1), fine.savedBytes(0, fine.units()));
}

TEST_F(ProfileTest, EqualBlocksCostAndKeepTheSame) {
  std::vector<OpId> cuts = {0};
  for (size_t i = 1; i < blocks.size(); ++i)
    cuts.push_back(blocks[i].first);
  cuts.push_back(facts.lastForward + 1);
  UnitCosts unitCosts = cutAt(cuts);
  for (int unit = 2; unit + 1 < unitCosts.units(); ++unit) {
    EXPECT_NEAR(unitCosts.seconds(unit, unit + 1).forward, unitCosts.seconds(1, 2).forward, 1e-12);
    EXPECT_EQ(unitCosts.savedBytes(unit, unit + 1), unitCosts.savedBytes(1, 2));
    EXPECT_EQ(unitCosts.peakBytes(unit, unit + 1), unitCosts.peakBytes(1, 2));
    // Only the residual stream crosses, and its gradient.
    EXPECT_EQ(unitCosts.forwardBytes(unit), 4 * 256 * 512 * 2);
    EXPECT_EQ(unitCosts.backwardBytes(unit), 4 * 256 * 512 * 2);
  }
  // A stage of two keeps no more than two stages: it shares what crosses.
  EXPECT_LE(unitCosts.savedBytes(1, 3), 2 * unitCosts.savedBytes(1, 2));
  EXPECT_GT(unitCosts.savedBytes(1, 3), unitCosts.savedBytes(1, 2));
}

/// Two stages that lie on one rank have what crosses between them once.
TEST_F(ProfileTest, WhatCrossesIsInTheSlotsOfStagesThatReadIt) {
  UnitCosts unitCosts = cutAt(cutPositions(problem, facts, blocks, 4));
  int64_t kept = 0;
  for (int cut = 1; cut < unitCosts.units(); ++cut)
    for (int a = 0; a < cut; ++a)
      for (int b = cut + 1; b <= unitCosts.units(); ++b) {
        int64_t before = unitCosts.slotBytesOver(cut, a, cut, false);
        int64_t after = unitCosts.slotBytesOver(cut, cut, b, false);
        int64_t apart = unitCosts.savedBytes(a, cut) + unitCosts.savedBytes(cut, b);
        int64_t twice = apart - unitCosts.savedBytes(a, b);
        EXPECT_LE(twice, std::min(before, after)) << a << " " << cut << " " << b;
        // Of the gradients that cross, some wait in a slot for those of weights.
        EXPECT_LE(unitCosts.slotBytesOver(cut, a, cut, true) - before,
                  unitCosts.waitingBytes(a, cut));
        kept += after;
      }
  EXPECT_GT(kept, 0) << "norms read again what comes from the block before";
}

TEST_F(ProfileTest, AStageThatBeginsWithinABlockKeepsWhatItReceives) {
  const Block &block = blocks[1];
  addRecomputation(execution, problem, blocks, {{1, Recompute::Full}}, on.software);
  OpId product = block.last;
  while (problem.ops[product].kind != OpKind::Contraction)
    --product;
  UnitCosts unitCosts = cutAt({0, block.first, product, block.last + 1, facts.lastForward + 1});
  const int64_t stream = int64_t{4} * 256 * 512 * 2;
  EXPECT_EQ(unitCosts.savedBytes(1, 3), stream) << "a whole block keeps what it begins with";
  EXPECT_EQ(unitCosts.savedBytes(1, 2), stream);
  EXPECT_EQ(unitCosts.savedBytes(2, 3), stream) << "what the last product reads";
  EXPECT_EQ(unitCosts.slotBytesOver(2, 2, 3, false), stream) << "once, if both are one rank's";
  EXPECT_EQ(unitCosts.slotBytesOver(2, 1, 2, false), 0) << "it is made again there";
}

TEST(Rebatch, RefusesWhatHasNoFactorForTheBatch) {
  Problem one = transformer({1, 64, 2, 16, 1, 128});
  Result<Problem> more = rebatched(one, ProblemFacts(one), 4);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().message,
            "plan: a graph of one sample can't be planned for a batch of 4");
  Problem four = transformer({1, 64, 2, 16, 4, 128});
  Result<Problem> eight = rebatched(four, ProblemFacts(four), 8);
  ASSERT_TRUE(eight) << eight.error().message;
  EXPECT_EQ(*eight, transformer({1, 64, 2, 16, 8, 128}));
}

TEST(Rebatch, WhatReadsAmidTheSamplesReadsWhatIsNotKnown) {
  Problem eight = load("mixtral");
  const ProblemFacts facts(eight);
  auto readOfBatch = [&](Op &op) {
    const int batch = op.reads.empty() ? -1 : facts.batchDim[op.operands[0]];
    return batch < 0 ? op.reads.end()
                     : std::ranges::find(op.reads, batch, &dtc::sharding::DimRead::dim);
  };
  auto amid =
      std::ranges::find_if(eight.ops, [&](Op &op) { return readOfBatch(op) != op.reads.end(); });
  ASSERT_NE(amid, eight.ops.end());
  readOfBatch(*amid)->start = 1;
  Result<Problem> more = rebatched(eight, facts, 16);
  ASSERT_TRUE(more) << more.error().message;
  for (size_t i = 0; i < eight.ops.size(); ++i) {
    bool isDropped = &eight.ops[i] == &*amid;
    EXPECT_EQ(more->ops[i].reads.empty(), eight.ops[i].reads.empty() || isDropped) << i;
  }
}
