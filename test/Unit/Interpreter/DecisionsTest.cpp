#include "Decisions.h"

#include "dtc/Dialect/Graph/CountLimits.h"
#include "dtc/Dialect/Graph/SlotOps.h"

#include "../ModuleTest.h"

#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::interpreter;

namespace {

// Two samples of three tokens, of which an expert takes two.
constexpr const char *kModule = R"mlir(
func.func @forward(%chosen: tensor<2x3x1xi1>) -> tensor<2x3x1xi1> {
  %limit = arith.constant dense<2> : tensor<2x3x1xi64>
  %truths = arith.extui %chosen : tensor<2x3x1xi1> to tensor<2x3x1xi64>
  %before = dtc.cumsum %truths 1 exclusive : tensor<2x3x1xi64> -> tensor<2x3x1xi64>
  %kept = arith.cmpi slt, %before, %limit : tensor<2x3x1xi64>
  return %kept : tensor<2x3x1xi1>
}
)mlir";

// Two samples of two tokens, each of which chooses two of four experts. Two ranks have two each.
constexpr const char *kExperts = R"mlir(
func.func @forward(%scores: tensor<2x2x4xf32>) -> tensor<2x4xi64> {
  %best = dtc.top_k %scores : tensor<2x2x4xf32> -> tensor<2x2x2xi64>
  %choices = dtc.reshape %best : tensor<2x2x2xi64> -> tensor<2x4xi64>
  %slots = dtc.expert_slots %choices experts 4 sections 1 parts 2 capacity 4 : tensor<2x4xi64>
  return %slots : tensor<2x4xi64>
}
)mlir";

class DecisionsTest
    : public test::ModuleTest<graph::GraphDialect, arith::ArithDialect, func::FuncDialect> {
protected:
  /// What an op of this kind makes is `decided`.
  template <typename Op> void parse(const char *text) {
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << errors;
    module->walk([&](Op op) { decided = op->getResult(0); });
  }

  bool areVariedAfter(ArrayRef<std::vector<int64_t>> draws) {
    Decisions decisions(*module);
    for (const std::vector<int64_t> &draw : draws) {
      see(decisions, decided, draw);
      decisions.endDraw();
    }
    return decisions.areVaried();
  }

  static void see(Decisions &decisions, Value value, const std::vector<int64_t> &elements) {
    Tensor tensor(cast<RankedTensorType>(value.getType()));
    tensor.ints = elements;
    decisions.see(value, tensor);
  }

  /// By a draw in which the tokens choose so. The experts' rows have their places in order.
  bool areVariedBy(ArrayRef<int64_t> choices) {
    Decisions decisions(*module);
    std::vector<int64_t> slots;
    for (int64_t sample = 0; sample < 2; ++sample) {
      int64_t next[] = {0, 4};
      for (int64_t expert : choices.slice(sample * 4, 4))
        slots.push_back(next[expert / 2]++);
    }
    module->walk([&](Operation *op) {
      if (isa<graph::TopKOp>(op))
        see(decisions, op->getResult(0), choices.vec());
      if (isa<graph::ExpertSlotsOp>(op))
        see(decisions, op->getResult(0), slots);
    });
    decisions.endDraw();
    return decisions.areVaried();
  }

  OwningOpRef<ModuleOp> module;
  Value decided;
};

TEST_F(DecisionsTest, MasksDifferAlongEachDimensionInTwoDraws) {
  parse<arith::CmpIOp>(kModule);
  const std::vector<int64_t> all = {1, 1, 1, 1, 1, 1}, alike = {1, 1, 0, 1, 1, 0},
                             constant = {1, 1, 1, 0, 0, 0}, varied = {1, 1, 0, 1, 1, 1};
  EXPECT_FALSE(areVariedAfter({all, all, all}));
  EXPECT_FALSE(areVariedAfter({alike, alike, alike})); // both samples
  EXPECT_FALSE(areVariedAfter({constant, constant}));  // all tokens
  EXPECT_FALSE(areVariedAfter({varied}));
  EXPECT_FALSE(areVariedAfter({varied, all, alike}));
  EXPECT_TRUE(areVariedAfter({varied, all, varied}));
}

TEST_F(DecisionsTest, OnlyLimitsOfCountsNeedFurtherDraws) {
  parse<arith::CmpIOp>(kModule);
  EXPECT_EQ(Decisions(*module).leastDraws(), 2);
  decided.getDefiningOp()->setOperand(0, decided.getDefiningOp()->getOperand(1));
  EXPECT_EQ(Decisions(*module).leastDraws(), 1);
  parse<graph::TopKOp>(kExperts);
  EXPECT_EQ(Decisions(*module).leastDraws(), 1);
}

TEST_F(DecisionsTest, ExpertsAreChosenOtherwiseByNeighbours) {
  parse<graph::TopKOp>(kExperts);
  EXPECT_FALSE(areVariedBy({0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_FALSE(areVariedBy({0, 1, 0, 2, 0, 1, 0, 2})); // both samples
  EXPECT_FALSE(areVariedBy({0, 1, 0, 1, 0, 2, 0, 2})); // all tokens of a sample
  EXPECT_TRUE(areVariedBy({0, 1, 0, 1, 0, 1, 0, 2}));
}

TEST_F(DecisionsTest, RanksOfExpertsHaveRowsOfOtherTokens) {
  parse<graph::TopKOp>(kExperts);
  EXPECT_FALSE(areVariedBy({1, 2, 3, 1, 0, 2, 0, 3})); // one of each rank
  EXPECT_TRUE(areVariedBy({1, 2, 3, 1, 0, 2, 0, 1}));
}

TEST_F(DecisionsTest, PartsWithoutARowMayBeAlike) {
  parse<graph::ExpertSlotsOp>(kExperts);
  Decisions decisions(*module);
  module->walk([&](graph::TopKOp op) { see(decisions, op, {0, 1, 1, 2, 0, 1, 1, 0}); });
  see(decisions, decided, {-1, -1, -1, -1, -1, -1, -1, -1});
  decisions.endDraw();
  EXPECT_TRUE(decisions.areVaried());
}

} // namespace
