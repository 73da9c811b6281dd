#include "Decisions.h"

#include "dtc/Dialect/Graph/CountLimits.h"

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

class DecisionsTest
    : public test::ModuleTest<graph::GraphDialect, arith::ArithDialect, func::FuncDialect> {
protected:
  void SetUp() override {
    module = parseSourceString<ModuleOp>(kModule, &context);
    ASSERT_TRUE(module) << errors;
    module->walk([&](arith::CmpIOp op) { mask = op; });
  }

  bool areVariedAfter(ArrayRef<std::vector<int64_t>> draws) {
    Decisions decisions(*module);
    for (const std::vector<int64_t> &draw : draws) {
      Tensor tensor(cast<RankedTensorType>(mask.getType()));
      tensor.ints = draw;
      decisions.see(mask, tensor);
      decisions.endDraw();
    }
    return decisions.areVaried();
  }

  OwningOpRef<ModuleOp> module;
  Value mask;
};

TEST_F(DecisionsTest, MasksDifferAlongEachDimensionInTwoDraws) {
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
  EXPECT_EQ(Decisions(*module).leastDraws(), 2);
  mask.getDefiningOp()->setOperand(0, mask.getDefiningOp()->getOperand(1));
  EXPECT_EQ(Decisions(*module).leastDraws(), 1);
}

} // namespace
