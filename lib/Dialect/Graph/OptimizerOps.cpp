#include "Rules.h"
#include "Verify.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::graph;

/// Elementwise over the tensors; the scalars have no dimensions.
static ShardingRule updateRule(Operation *op, UnitFactors units) {
  OpRule rule(op, units);
  SmallVector<FactorId> dims = rule.factors(shapeOf(op->getResult(0)));
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (!shapeOf(operand).empty())
      rule.operand(i, dims);
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    rule.result(i, dims);
  return rule.build();
}

ShardingRule SgdUpdateOp::buildShardingRule(UnitFactors units) {
  return updateRule(*this, units);
}
ShardingRule AdamUpdateOp::buildShardingRule(UnitFactors units) {
  return updateRule(*this, units);
}

OpCost SgdUpdateOp::getCost() { return {OpKind::Elementwise}; }
OpCost AdamUpdateOp::getCost() { return {.kind = OpKind::Elementwise, .dear = true}; }

static LogicalResult verifyState(Operation *op, Value value, Value param, StringRef what) {
  if (failed(verifyFloat(op, value, what)))
    return failure();
  return verifyShape(op, value, shapeOf(param), what);
}

static LogicalResult verifySameType(Operation *op, Value value, Value other, StringRef what) {
  if (value.getType() == other.getType())
    return success();
  return op->emitOpError() << what << " must have the type " << other.getType() << ": "
                           << value.getType();
}

LogicalResult SgdUpdateOp::verify() {
  if (failed(verifyFloat(*this, getParam(), "parameter")) ||
      failed(verifyState(*this, getGrad(), getParam(), "gradient")) ||
      failed(verifySameType(*this, getNewParam(), getParam(), "new parameter")))
    return failure();
  if (!getMomentumBuffer() != !getNewMomentumBuffer())
    return emitOpError() << "a momentum buffer must be both operand and result: "
                         << (getMomentumBuffer() ? "operand" : "result") << " only";
  bool wantsBuffer = !getMomentum().isZero();
  if (wantsBuffer && !getMomentumBuffer())
    return emitOpError() << "momentum needs a momentum buffer: "
                         << getMomentum().convertToDouble();
  if (!getMomentumBuffer())
    return success();
  if (failed(verifyState(*this, getMomentumBuffer(), getParam(), "momentum buffer")))
    return failure();
  return verifySameType(*this, getNewMomentumBuffer(), getMomentumBuffer(),
                        "new momentum buffer");
}

LogicalResult AdamUpdateOp::verify() {
  if (failed(verifyFloat(*this, getParam(), "parameter")) ||
      failed(verifyState(*this, getGrad(), getParam(), "gradient")) ||
      failed(verifyState(*this, getExpAvg(), getParam(), "exp_avg")) ||
      failed(verifyState(*this, getExpAvgSq(), getParam(), "exp_avg_sq")) ||
      failed(verifySameType(*this, getNewParam(), getParam(), "new parameter")) ||
      failed(verifySameType(*this, getNewExpAvg(), getExpAvg(), "new exp_avg")))
    return failure();
  return verifySameType(*this, getNewExpAvgSq(), getExpAvgSq(), "new exp_avg_sq");
}
