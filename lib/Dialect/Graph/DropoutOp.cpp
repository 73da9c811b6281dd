#include "Decompositions/Dropout.h"
#include "Rules.h"
#include "Verify.h"

using namespace mlir;

namespace dtc::graph {

static constexpr int64_t kMostNumber = 0xFFFFFFFF; // a word of Philox's counter

LogicalResult PhiloxOp::verify() {
  if (int64_t(getNumber()) < 0 || int64_t(getNumber()) > kMostNumber)
    return emitOpError() << "number must be an unsigned integer of 32 bits: "
                         << int64_t(getNumber());
  return verifyElementType(*this, getResult(), IntegerType::get(getContext(), 64), "result");
}

ShardingRule PhiloxOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<FactorId> dims = rule.factors(shapeOf(getResult()));
  return rule.operand(0, dims).operand(1, dims).result(0, dims).build();
}

OpCost PhiloxOp::getCost() { return {.kind = OpKind::Elementwise, .dear = true}; }

void DropoutOp::build(OpBuilder &builder, OperationState &state, Value input, double ratio) {
  build(builder, state, input.getType(), input, /*keys=*/Value(), builder.getF64FloatAttr(ratio),
        IntegerAttr(), IntegerAttr());
}

LogicalResult DropoutOp::verify() {
  const double ratio = getRatio().convertToDouble();
  if (!(ratio >= 0 && ratio <= 1))
    return emitOpError() << "ratio must be between 0 and 1: " << ratio;
  if (failed(verifyFloat(*this, getInput(), "input")) ||
      failed(verifySameElementType(*this, getResult(), getInput(), "result")) ||
      failed(verifyShape(*this, getResult(), shapeOf(getInput()), "result")))
    return failure();
  if (!getKeys())
    return success();
  if (int64_t(getNumber()) < 0 || int64_t(getNumber()) > kMostNumber)
    return emitOpError() << "number must be an unsigned integer of 32 bits: "
                         << int64_t(getNumber());
  if (failed(verifyDim(*this, getBatch(), shapeOf(getInput()).size(), "batch")) ||
      failed(verifyElementType(*this, getKeys(), IntegerType::get(getContext(), 64), "keys")))
    return failure();
  return verifyShape(*this, getKeys(), shapeOf(getInput())[getBatch()], "keys");
}

static bool isSplit(const LocalContext &context, int64_t dim) {
  return llvm::any_of(context.rule.results[0][dim],
                      [&](FactorId id) { return !context.sharding.factors[id].empty(); });
}

ShardingRule DropoutOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<FactorId> dims = rule.factors(shapeOf(getInput()));
  if (getKeys())
    rule.operand(1, dims[getBatch()]);
  return rule.operand(0, dims).result(0, dims).linear({0}).build();
}

/// What was kept stays for the backward pass, a byte each.
OpCost DropoutOp::getCost() {
  return {.kind = OpKind::Elementwise, .saved = double(getType().getNumElements()), .dear = true};
}

/// What was dropped gets no gradient: the same elements are drawn again.
LogicalResult DropoutOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                       ArrayRef<bool> needed, MutableArrayRef<Value> operandGrads) {
  if (needed[0])
    operandGrads[0] = DropoutOp::create(builder, getLoc(), resultGrads[0].getType(), resultGrads[0],
                                        getKeys(), getRatioAttr(), getNumberAttr(), getBatchAttr());
  return success();
}

/// A part draws by the indices in the whole tensor. The samples bring theirs with their keys.
FailureOr<SmallVector<Value>> DropoutOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                    TypeRange resultTypes,
                                                    const LocalContext &context) {
  TensorBuilder b(builder, getLoc());
  bool whole = true;
  for (int64_t dim = 0; dim < int64_t(shapeOf(getResult()).size()); ++dim)
    whole &= !getKeys() || dim == int64_t(getBatch()) || !isSplit(context, dim);
  if (whole)
    return cloneLocal(*this, builder, operands, resultTypes);
  ArrayRef<int64_t> shape = shapeOf(operands[0]);
  auto indexAlong = [&](int64_t dim) -> Value {
    Value local = b.iota(builder.getI64Type(), shape, dim);
    Value offset = shardOffset(builder, context, context.rule.results[0], dim);
    if (!offset)
      return local;
    return arith::AddIOp::create(builder, getLoc(), local, b.broadcast(offset, {}, shape));
  };
  return SmallVector<Value>{dropoutOf(b, *this, operands[0], operands[1], indexAlong)};
}

} // namespace dtc::graph
