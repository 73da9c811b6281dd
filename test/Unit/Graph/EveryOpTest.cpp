// Every op answers every interface, or says that it has no answer. Nothing is left to a default.
#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Interpreter/Interpreter.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace dtc;

namespace {

class EveryOp : public ::testing::Test {
protected:
  EveryOp() {
    DialectRegistry registry;
    registry.insert<graph::GraphDialect>();
    graph::registerElementwiseModels(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// All ops of the dialect. (MLIR 22's getRegisteredOperationsByDialect misses some.)
  std::vector<RegisteredOperationName> opsOf(StringRef dialect) {
    std::vector<RegisteredOperationName> ops;
    for (RegisteredOperationName op : context.getRegisteredOperations())
      if (op.getDialectNamespace() == dialect)
        ops.push_back(op);
    return ops;
  }

  /// All ops on tensors of the `dtc` dialect; what declares a symbol computes nothing.
  std::vector<RegisteredOperationName> tensorOps() {
    std::vector<RegisteredOperationName> ops = opsOf("dtc");
    llvm::erase_if(ops, [](RegisteredOperationName op) {
      return op.hasInterface<SymbolOpInterface>();
    });
    EXPECT_GE(ops.size(), 37u);
    return ops;
  }

  MLIRContext context;
};

TEST_F(EveryOp, HasAShardingRule) {
  for (RegisteredOperationName op : tensorOps())
    EXPECT_TRUE(op.hasInterface<ShardingRuleOpInterface>()) << op.getStringRef().str();
}

TEST_F(EveryOp, StatesItsCost) {
  for (RegisteredOperationName op : tensorOps())
    EXPECT_TRUE(op.hasInterface<CostOpInterface>()) << op.getStringRef().str();
}

TEST_F(EveryOp, StatesItsFloatTypes) {
  for (RegisteredOperationName op : tensorOps())
    EXPECT_TRUE(op.hasInterface<PrecisionOpInterface>()) << op.getStringRef().str();
}

TEST_F(EveryOp, HasAGradientOrSaysThatItHasNone) {
  for (RegisteredOperationName op : tensorOps())
    EXPECT_NE(op.hasInterface<DifferentiableOpInterface>(), op.hasTrait<NoGradient>())
        << op.getStringRef().str();
}

TEST_F(EveryOp, IsInterpreted) {
  for (RegisteredOperationName op : tensorOps())
    EXPECT_TRUE(interpreter::isInterpreted(op)) << op.getStringRef().str();
}

/// A barrier is none of these: it computes nothing, and no kernel may reach across it.
TEST_F(EveryOp, IsDecomposedOrInKernelsOrALibraryCall) {
  for (RegisteredOperationName op : tensorOps()) {
    bool computes = op.getStringRef() != graph::BarrierOp::getOperationName();
    EXPECT_EQ(op.hasInterface<DecomposableOpInterface>() + op.hasInterface<KernelOpInterface>() +
                  op.hasTrait<LibraryCall>(),
              computes)
        << op.getStringRef().str();
  }
}

TEST_F(EveryOp, OfArithmeticWithARuleStatesItsCost) {
  int found = 0;
  for (StringRef dialect : {"arith", "math"})
    for (RegisteredOperationName op : opsOf(dialect)) {
      bool ruled = op.hasInterface<ShardingRuleOpInterface>();
      found += ruled;
      EXPECT_EQ(ruled, op.hasInterface<CostOpInterface>()) << op.getStringRef().str();
    }
  EXPECT_GE(found, 70);
}

/// Kernels and training ask these ops nothing: an element comes from the same position of each
/// operand, and conversions are put around an op.
TEST_F(EveryOp, OfArithmeticWithARuleIsElementwiseOrAConstant) {
  for (StringRef dialect : {"arith", "math"})
    for (RegisteredOperationName op : opsOf(dialect))
      if (op.hasInterface<ShardingRuleOpInterface>())
        EXPECT_NE(op.hasTrait<OpTrait::Elementwise>(), op.hasTrait<OpTrait::ConstantLike>())
            << op.getStringRef().str();
}

} // namespace
