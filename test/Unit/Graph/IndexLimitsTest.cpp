#include "dtc/Dialect/Graph/Graph.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace dtc::graph;

namespace {

constexpr const char *kModule = R"mlir(
func.func @f(%tokens: tensor<4x8xi32>, %other: tensor<4x8xi64>,
             %target: tensor<4x8xi64> {dtc.role = #dtc.role<target, "target">}, %labels: tensor<4x8xi64>,
             %large: tensor<100x16xf32>, %small: tensor<30x16xf32>, %logits: tensor<4x8x50xf32>)
    -> (tensor<32x16xf32>, tensor<4x8x16xf32>, tensor<4x8xf32>, tensor<4x8xi64>) {
  %wide = arith.extsi %tokens : tensor<4x8xi32> to tensor<4x8xi64>
  %flat = dtc.reshape %wide : tensor<4x8xi64> -> tensor<32xi64>
  %0 = dtc.gather %large, %flat axis 0 : tensor<100x16xf32>, tensor<32xi64> -> tensor<32x16xf32>
  %1 = dtc.gather %small, %wide axis 0 : tensor<30x16xf32>, tensor<4x8xi64> -> tensor<4x8x16xf32>
  %loss, %lse = dtc.cross_entropy %logits, %target ignore -100 : tensor<4x8x50xf32>, tensor<4x8xi64> -> tensor<4x8xf32>, tensor<4x8xf32>
  %own, %rest = dtc.cross_entropy %logits, %labels ignore -100 : tensor<4x8x50xf32>, tensor<4x8xi64> -> tensor<4x8xf32>, tensor<4x8xf32>
  %2 = arith.addi %other, %other : tensor<4x8xi64>
  return %0, %1, %loss, %2 : tensor<32x16xf32>, tensor<4x8x16xf32>, tensor<4x8xf32>, tensor<4x8xi64>
}
)mlir";

TEST(IndexLimits, FollowsIndicesToTheTightestTable) {
  MLIRContext context;
  context.loadDialect<GraphDialect, func::FuncDialect, arith::ArithDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kModule, &context);
  ASSERT_TRUE(module);
  auto function = module->lookupSymbol<func::FuncOp>("f");
  annotateIndexLimits(function);
  auto limit = [&](unsigned index) {
    auto attr = function.getArgAttrOfType<IntegerAttr>(index, GraphDialect::kLimit);
    return attr ? attr.getInt() : -1;
  };
  EXPECT_EQ(limit(0), 30);
  EXPECT_EQ(limit(1), -1) << "values that are computed with have no limit";
  EXPECT_EQ(limit(2), 50);
  EXPECT_EQ(limit(3), -1) << "labels may hold what a loss of the model's own ignores";
  EXPECT_EQ(limit(4), -1);
}

} // namespace
