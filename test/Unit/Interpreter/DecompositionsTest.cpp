#include "Decompositions.h"

#include "dtc/Dialect/Graph/Graph.h"

#include "../ModuleTest.h"

#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::interpreter;

namespace {

// The first two differ by what is attached to them, the others by what they compute.
constexpr const char *kModule = R"mlir(
func.func @forward(%x: tensor<4x8xf32>, %y: tensor<2x8xf32>) {
  %0 = dtc.softmax %x 1 {dtc.id = 3} : tensor<4x8xf32>
  %1 = dtc.softmax %0 1 {dtc.id = 4} : tensor<4x8xf32>
  %2 = dtc.softmax %x 0 : tensor<4x8xf32>
  %3 = dtc.softmax %y 1 : tensor<2x8xf32>
  %4 = dtc.activation gelu %x : tensor<4x8xf32>
  return
}
)mlir";

class DecompositionsTest : public test::ModuleTest<graph::GraphDialect, arith::ArithDialect,
                                                   func::FuncDialect, math::MathDialect> {};

TEST_F(DecompositionsTest, OpsThatComputeTheSameShareOne) {
  auto module = parseSourceString<ModuleOp>(kModule, &context);
  ASSERT_TRUE(module) << errors;
  Decompositions decompositions;
  std::vector<func::FuncOp> made;
  module->walk([&](DecomposableOpInterface op) {
    auto function = decompositions.of(op);
    ASSERT_TRUE(succeeded(function)) << errors;
    made.push_back(*function);
  });
  ASSERT_EQ(made.size(), 5u);
  EXPECT_EQ(made[0], made[1]);
  EXPECT_EQ(decompositions.size(), 4u);
  EXPECT_EQ(made[3].getArgumentTypes().front(), made[3].getResultTypes().front());
  EXPECT_EQ(cast<RankedTensorType>(made[3].getArgumentTypes().front()).getDimSize(0), 2);
}

} // namespace
