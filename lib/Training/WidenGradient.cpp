#include "WidenGradient.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::training {

static Widening wideningOf(Value value) {
  Operation *op = value.getDefiningOp();
  // What a norm's input gets has the input's type: only columns are wider.
  if (isa_and_nonnull<LayerNormGradOp, RmsNormGradOp, BatchNormGradOp>(op) &&
      value == op->getResult(0))
    return Widening::None;
  auto precision = dyn_cast_or_null<PrecisionOpInterface>(op);
  return precision ? precision.getWidening() : Widening::None;
}

/// Right after the op that makes it, and part of the same backward op.
static Value extended(OpBuilder &builder, Value value, Type elementType) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(value);
  TensorBuilder b(builder, value.getLoc());
  Value wide = b.convert(value, elementType);
  if (Operation *op = value.getDefiningOp())
    if (Attribute backward = op->getAttr(GraphDialect::kBackward))
      wide.getDefiningOp()->setAttr(GraphDialect::kBackward, backward);
  return wide;
}

/// `reads`: how many of the value's uses are ours.
static Value widen(OpBuilder &builder, Value value, Type elementType, unsigned reads) {
  auto type = cast<RankedTensorType>(value.getType()).clone(elementType);
  if (type == value.getType())
    return value;
  Operation *op = value.getDefiningOp();
  if (auto narrowing = dyn_cast_or_null<arith::TruncFOp>(op))
    if (narrowing.getIn().getType() == type)
      return narrowing.getIn();
  bool alone = static_cast<unsigned>(llvm::range_size(value.getUses())) == reads;
  Widening widening = wideningOf(value);
  if (!alone || widening == Widening::None)
    return extended(builder, value, elementType);
  if (widening == Widening::Operands)
    for (OpOperand &operand : op->getOpOperands())
      operand.set(widen(builder, operand.get(), elementType, 1));
  value.setType(type);
  return value;
}

Value widenGradient(OpBuilder &builder, Value gradient, Type elementType) {
  return widen(builder, gradient, elementType, 0);
}

} // namespace dtc::training
