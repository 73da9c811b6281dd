#include "dtc/Dialect/Graph/StepOps.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::sharding;
using namespace dtc::graph;

LogicalResult StepVectorOp::verify() {
  if (getNumOperands() <= kSquares)
    return emitOpError("needs at least ") << kSquares + 1 << " numbers: " << getNumOperands();
  return success();
}

/// What is pending is completed before: terms may differ in it.
ShardingRule StepVectorOp::buildShardingRule(UnitFactors) {
  return RuleBuilder(static_cast<int>(getNumOperands()), static_cast<int>(getNumResults())).build();
}

OpCost StepVectorOp::getCost() { return {OpKind::View}; }

/// Of one rank they are what they are.
FailureOr<SmallVector<Value>> StepVectorOp::decompose(OpBuilder &) {
  return SmallVector<Value>(getInputs());
}
