#include "dtc/Dialect/Graph/CountLimits.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace dtc::graph;

namespace {

// Four experts take 12 of 32 tokens. What a number of no count is compared with isn't a limit.
constexpr const char *kModule = R"mlir(
func.func @f(%chosen: tensor<2x32x4xi1>, %other: tensor<2x32x4xi64>) -> (tensor<2x32x12xi1>, tensor<2x32xi1>, tensor<2x32xi1>) {
  %c2 = arith.constant dense<2> : tensor<2x32xi64>
  %c11 = arith.constant dense<11> : tensor<2x32xi64>
  %c12 = arith.constant dense<12> : tensor<2x32xi64>
  %c32 = arith.constant dense<32> : tensor<2x32xi64>
  %truths = arith.extui %chosen : tensor<2x32x4xi1> to tensor<2x32x4xi64>
  %upto = dtc.cumsum %truths 1 : tensor<2x32x4xi64> -> tensor<2x32x4xi64>
  %before = arith.subi %upto, %truths : tensor<2x32x4xi64>
  %own = arith.muli %before, %truths : tensor<2x32x4xi64>
  %position = dtc.reduce sum %own [2] : tensor<2x32x4xi64> -> tensor<2x32xi64>
  %kept = arith.cmpi slt, %position, %c12 : tensor<2x32xi64>
  %always = arith.cmpi slt, %position, %c32 : tensor<2x32xi64>
  %last = arith.minsi %position, %c11 : tensor<2x32xi64>
  %at = dtc.broadcast %last [0, 1] : tensor<2x32xi64> -> tensor<2x32x12xi64>
  %places = dtc.iota 2 : tensor<2x32x12xi64>
  %slot = arith.cmpi eq, %at, %places : tensor<2x32x12xi64>
  %sum = dtc.reduce sum %other [2] : tensor<2x32x4xi64> -> tensor<2x32xi64>
  %more = arith.cmpi sgt, %sum, %c2 : tensor<2x32xi64>
  return %slot, %kept, %more : tensor<2x32x12xi1>, tensor<2x32xi1>, tensor<2x32xi1>
}
)mlir";

TEST(CountLimits, FollowsCountsOfTruthsToTheirLimits) {
  MLIRContext context;
  context.loadDialect<GraphDialect, func::FuncDialect, arith::ArithDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kModule, &context);
  ASSERT_TRUE(module);
  CountLimits found = findCountLimits(module->lookupSymbol<func::FuncOp>("f"));
  ASSERT_EQ(found.limits.size(), 2U);
  EXPECT_EQ(found.limits[0].number, 12);
  EXPECT_TRUE(found.limits[0].isDecision());
  EXPECT_EQ(found.limits[1].number, 11);
  EXPECT_FALSE(found.limits[1].isDecision());
  for (const CountLimit &limit : found.limits) {
    EXPECT_EQ(shapeOf(limit.counted.truths), ArrayRef<int64_t>({2, 32, 4}));
    EXPECT_EQ(ArrayRef<int64_t>(limit.counted.dims), ArrayRef<int64_t>(1));
  }
  ASSERT_EQ(found.slots.size(), 1U);
  EXPECT_TRUE(isa<IotaOp>(found.slots[0].places.getDefiningOp()));
  EXPECT_EQ(found.slots[0].dim, 2);
}

} // namespace
