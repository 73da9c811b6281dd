#include "dtc/Dialect/Graph/StopGradientOp.h"

#include "Rules.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::sharding;
using namespace dtc::graph;

ShardingRule StopGradientOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<FactorId> dims = rule.factors(shapeOf(getResult()));
  return rule.operand(0, dims).result(0, dims).build();
}

OpCost StopGradientOp::getCost() { return {OpKind::View}; }

FailureOr<SmallVector<Value>> StopGradientOp::decompose(OpBuilder &) {
  return SmallVector<Value>{getInput()};
}

/// The operand has none.
LogicalResult StopGradientOp::buildGradient(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>,
                                            MutableArrayRef<Value>) {
  return success();
}
