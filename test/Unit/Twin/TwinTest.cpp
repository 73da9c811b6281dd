#include "dtc/Twin/Twin.h"

#include "dtc/Dialect/Dist/Dist.h"

#include "../ModuleTest.h"

#include "mlir/IR/Matchers.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace dtc;

namespace {

using TwinTest = test::ModuleTest<graph::GraphDialect, dist::DistDialect, arith::ArithDialect,
                                  func::FuncDialect>;

// Experts have 12 places for 64 choices of 32 tokens. 12 elsewhere is a number like others.
constexpr const char *kExperts = R"mlir(
dist.mesh @mesh ["cp" = 4]
func.func @forward(%chosen: tensor<8x2x32x4xi1> {dist.sharding = #dist.sharding<@mesh, [{}, {}, {"cp"}, {}]>})
    -> (tensor<8x64x4x12xi1>, tensor<8x64x4xi1>, tensor<8x64x4xi64>) {
  %c11 = arith.constant dense<11> : tensor<8x64x4xi64>
  %c12 = arith.constant dense<12> : tensor<8x64x4xi64>
  %truths = arith.extui %chosen : tensor<8x2x32x4xi1> to tensor<8x2x32x4xi64>
  %ordered = dtc.reshape %truths : tensor<8x2x32x4xi64> -> tensor<8x64x4xi64>
  %before = dtc.cumsum %ordered 1 exclusive : tensor<8x64x4xi64> -> tensor<8x64x4xi64>
  %kept = arith.cmpi slt, %before, %c12 : tensor<8x64x4xi64>
  %last = arith.minsi %before, %c11 : tensor<8x64x4xi64>
  %at = dtc.broadcast %last [0, 1, 2] : tensor<8x64x4xi64> -> tensor<8x64x4x12xi64>
  %places = dtc.iota 3 : tensor<8x64x4x12xi64>
  %slot = arith.cmpi eq, %at, %places : tensor<8x64x4x12xi64>
  %more = arith.addi %before, %c12 : tensor<8x64x4xi64>
  return %slot, %kept, %more : tensor<8x64x4x12xi1>, tensor<8x64x4xi1>, tensor<8x64x4xi64>
}
)mlir";

TEST_F(TwinTest, CapacitiesAreScaledWithTheTokens) {
  OwningOpRef<ModuleOp> planned = parseSourceString<ModuleOp>(kExperts, &context);
  ASSERT_TRUE(planned) << errors;
  twin::Twin twin = twin::makeTwin(*planned, 1);
  ASSERT_TRUE(twin.module) << twin.reason;
  auto numberOf = [&](auto op) {
    DenseIntElementsAttr number;
    EXPECT_TRUE(matchPattern(op->getOperand(1), m_Constant(&number)));
    return number.template getSplatValue<APInt>().getSExtValue();
  };
  auto function = twin.module->lookupSymbol<func::FuncOp>("forward");
  EXPECT_EQ(graph::shapeOf(function.getArgument(0))[2], 8); // two ranks have four tokens each
  function.walk([&](arith::CmpIOp op) {
    if (op.getPredicate() == arith::CmpIPredicate::slt)
      EXPECT_EQ(numberOf(op), 3);
  });
  function.walk([&](arith::MinSIOp op) { EXPECT_EQ(numberOf(op), 2); });
  function.walk([&](arith::AddIOp op) { EXPECT_EQ(numberOf(op), 12); });
  function.walk([&](graph::IotaOp op) { EXPECT_GE(graph::shapeOf(op.getResult())[3], 3); });
}

constexpr const char *kAttention = R"mlir(
dist.mesh @mesh ["tp" = 4]
func.func @forward(%q: tensor<8x256x32x128xbf16>, %k: tensor<8x256x8x128xbf16>, %v: tensor<8x256x8x128xbf16>)
    -> tensor<8x256x32x128xbf16> {
  %y, %lse = dtc.attention %q, %k, %v scale 0.125 causal : tensor<8x256x32x128xbf16>, tensor<8x256x8x128xbf16>,
      tensor<8x256x8x128xbf16> -> tensor<8x256x32x128xbf16>, tensor<8x32x256xf32>
  return %y : tensor<8x256x32x128xbf16>
}
)mlir";

TEST_F(TwinTest, HeadsStayWhatLibrariesTake) {
  OwningOpRef<ModuleOp> planned = parseSourceString<ModuleOp>(kAttention, &context);
  ASSERT_TRUE(planned) << errors;
  for (auto [multiple, head] : {std::pair(1, 4), std::pair(8, 8)}) {
    twin::Twin twin = twin::makeTwin(*planned, 1, multiple);
    ASSERT_TRUE(twin.module) << twin.reason;
    auto function = twin.module->lookupSymbol<func::FuncOp>("forward");
    for (BlockArgument argument : function.getArguments())
      EXPECT_EQ(graph::shapeOf(argument).back(), head);
    EXPECT_LT(graph::shapeOf(function.getArgument(0))[1], 256);
  }
}

} // namespace
