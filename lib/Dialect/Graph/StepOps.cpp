#include "dtc/Dialect/Graph/StepOps.h"

#include "Rules.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"

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

/// Elementwise; the number of faults has no dimensions.
ShardingRule CommitOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<FactorId> dims = rule.factors(shapeOf(getResult()));
  return rule.operand(0, dims).operand(1, dims).result(0, dims).build();
}

OpCost CommitOp::getCost() { return {OpKind::Elementwise}; }

FailureOr<SmallVector<Value>> CommitOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  Value isClean = b.compare(arith::CmpFPredicate::OEQ, getFaults(), 0.0);
  isClean = b.broadcast(isClean, {}, shapeOf(getResult()));
  return SmallVector<Value>{b.select(isClean, getFresh(), getOld())};
}

/// On a dtc.parameter.
static constexpr llvm::StringLiteral kInitial = "dtc.initial";

void dtc::graph::setInitial(ParameterOp buffer, double value) {
  buffer->setAttr(kInitial, Builder(buffer.getContext()).getF64FloatAttr(value));
}

std::optional<double> dtc::graph::initialOf(ParameterOp parameter) {
  auto value = parameter->getAttrOfType<FloatAttr>(kInitial);
  return value ? std::optional(value.getValueAsDouble()) : std::nullopt;
}
