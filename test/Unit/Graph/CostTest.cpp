#include "dtc/Dialect/Graph/Graph.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;

namespace {

/// What each op states of its cost, in order.
std::vector<dtc::sharding::OpCost> costs(const char *text) {
  DialectRegistry registry;
  registry.insert<dtc::graph::GraphDialect>();
  dtc::graph::registerElementwiseModels(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  std::vector<dtc::sharding::OpCost> result;
  if (module)
    module->walk([&](dtc::CostOpInterface op) { result.push_back(op.getCost()); });
  return result;
}

/// Of the contractions inside.
std::vector<double> flops(const char *text) {
  std::vector<double> result;
  for (const dtc::sharding::OpCost &cost : costs(text))
    result.push_back(cost.flops);
  return result;
}

TEST(Cost, Contraction) {
  EXPECT_EQ(flops("func.func @f(%x: tensor<4x8x16xf32>, %w: tensor<16x32xf32>) {\n"
                  "  %0 = dtc.contract %x [0, 1, 2], %w [2, 3] -> [0, 1, 3] : tensor<4x8x16xf32>,"
                  " tensor<16x32xf32> -> tensor<4x8x32xf32>\n  return\n}\n"),
            (std::vector<double>{2.0 * 4 * 8 * 16 * 32}));
}

TEST(Cost, GroupedConvolutionAndItsGradients) {
  const char *text = R"(
    func.func @f(%x: tensor<2x8x6x6xf32>, %w: tensor<12x4x3x3xf32>, %y: tensor<2x12x4x4xf32>) {
      %0 = dtc.conv %x, %w strides [1, 1] pad [0, 0], [0, 0] dilations [1, 1] groups 2
        : tensor<2x8x6x6xf32>, tensor<12x4x3x3xf32> -> tensor<2x12x4x4xf32>
      %1 = dtc.conv_input_grad %y, %w strides [1, 1] pad [0, 0], [0, 0] dilations [1, 1] groups 2
        : tensor<2x12x4x4xf32>, tensor<12x4x3x3xf32> -> tensor<2x8x6x6xf32>
      %2 = dtc.conv_weight_grad %x, %y strides [1, 1] pad [0, 0], [0, 0] dilations [1, 1] groups 2
        : tensor<2x8x6x6xf32>, tensor<2x12x4x4xf32> -> tensor<12x4x3x3xf32>
      return
    })";
  double each = 2.0 * 2 * 12 * 4 * 4 * 4 * 3 * 3;
  EXPECT_EQ(flops(text), (std::vector<double>{each, each, each}));
}

TEST(Cost, Attention) {
  // Scores over e = 8, values over f = 16; the gradient computes the scores
  // again and two products over e, two over f.
  const char *text = R"(
    func.func @f(%q: tensor<2x3x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x16xf32>,
                 %o: tensor<2x3x4x16xf32>, %l: tensor<2x4x3xf32>) {
      %0:2 = dtc.attention %q, %k, %v scale 1.0 : tensor<2x3x4x8xf32>, tensor<2x5x2x8xf32>,
        tensor<2x5x2x16xf32> -> tensor<2x3x4x16xf32>, tensor<2x4x3xf32>
      %1:3 = dtc.attention_grad %q, %k, %v, %o, %l, %o scale 1.0 : tensor<2x3x4x8xf32>,
        tensor<2x5x2x8xf32>, tensor<2x5x2x16xf32>, tensor<2x3x4x16xf32>, tensor<2x4x3xf32>,
        tensor<2x3x4x16xf32> -> tensor<2x3x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x16xf32>
      return
    })";
  double pairs = 2.0 * 2 * 4 * 3 * 5;
  EXPECT_EQ(flops(text), (std::vector<double>{pairs * (8 + 16), pairs * (3 * 8 + 2 * 16)}));
}

TEST(Cost, ExponentialsRootsAndDivisionsAreDear) {
  const char *text = R"(
    func.func @f(%x: tensor<4xf32>) {
      %0 = arith.addf %x, %x : tensor<4xf32>
      %1 = arith.mulf %x, %0 : tensor<4xf32>
      %2 = arith.maximumf %x, %1 : tensor<4xf32>
      %3 = arith.truncf %x : tensor<4xf32> to tensor<4xbf16>
      %4 = dtc.activation relu %x : tensor<4xf32>
      %5 = arith.divf %x, %0 : tensor<4xf32>
      %6 = math.rsqrt %x : tensor<4xf32>
      %7 = math.exp %x : tensor<4xf32>
      %8 = dtc.activation silu %x : tensor<4xf32>
      %9 = dtc.activation_grad gelu %x, %x : tensor<4xf32>
      return
    })";
  std::vector<bool> dear;
  for (const dtc::sharding::OpCost &cost : costs(text))
    dear.push_back(cost.dear);
  EXPECT_EQ(dear,
            (std::vector<bool>{false, false, false, false, false, true, true, true, true, true}));
}

} // namespace
