#include "dtc/Dialect/Exec/Part.h"

#include "VerifyAttributes.h"

using namespace mlir;

namespace dtc::exec {

bool isPart(Operation *op) {
  return isa<graph::SliceOp, graph::ConcatOp>(op) && op->hasAttr(kPart);
}

graph::SliceOp partOf(Operation *op) {
  return op && isPart(op) ? dyn_cast<graph::SliceOp>(op) : graph::SliceOp();
}

graph::ConcatOp joinOf(Operation *op) {
  return op && isPart(op) ? dyn_cast<graph::ConcatOp>(op) : graph::ConcatOp();
}

graph::ConcatOp joinedInto(Value value) {
  if (!isa_and_nonnull<CopyOp>(value.getDefiningOp()))
    return {};
  for (Operation *user : value.getUsers()) {
    if (isa<WaitOp>(user) && user->hasOneUse())
      user = *user->user_begin();
    if (graph::ConcatOp join = joinOf(user))
      return join;
  }
  return {};
}

int64_t beginOf(Value value) {
  int64_t begin = 0;
  for (Operation *op = value.getDefiningOp(); op && isView(op); op = value.getDefiningOp()) {
    if (graph::SliceOp part = partOf(op))
      begin += part.getOffsets()[0];
    value = op->getOperand(0);
  }
  if (graph::ConcatOp join = joinedInto(value))
    for (Value input : join.getInputs()) {
      if (bufferRoot(input) == value)
        break;
      begin += cast<ShapedType>(input.getType()).getNumElements();
    }
  return begin;
}

LogicalResult verifyPart(Operation *op, Attribute attribute) {
  auto isFlat = [](Type type) { return cast<ShapedType>(type).getRank() == 1; };
  if (!isa<UnitAttr>(attribute))
    return op->emitOpError("exec.part takes no value, got: ") << attribute;
  if (!isPart(op))
    return op->emitOpError("is neither a slice nor a concat, so that it can't have exec.part");
  if (!llvm::all_of(op->getOperandTypes(), isFlat))
    return op->emitOpError("has exec.part, but operands of several dimensions");
  if (auto slice = dyn_cast<graph::SliceOp>(op); slice && slice.getStrides()[0] != 1)
    return op->emitOpError("has exec.part, but a stride");
  auto inputs = op->getOperands();
  for (size_t i = 0; isa<graph::ConcatOp>(op) && i < inputs.size(); ++i)
    if (llvm::is_contained(inputs.drop_front(i + 1), inputs[i]))
      return op->emitOpError("has exec.part, but the same operand twice: ") << i;
  return success();
}

} // namespace dtc::exec
