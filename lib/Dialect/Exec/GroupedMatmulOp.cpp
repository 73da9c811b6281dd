#include "dtc/Dialect/Exec/GroupedMatmulOp.h"

using namespace mlir;

namespace dtc::exec {

bool GroupedMatmulOp::hasOwnLoops() { return true; }
Reach GroupedMatmulOp::getReach(unsigned) { return Reach::LookedUp; }

namespace {
/// One tensor of the products, and how it is addressed.
struct Operand {
  StringRef name;
  RankedTensorType type;
  ArrayRef<int64_t> strides;
  int64_t rows, columns, experts;
};
} // namespace

/// Checks that every element of all products lies within the tensor.
static LogicalResult verifyOperand(GroupedMatmulOp op, const Operand &operand) {
  SmallVector<int64_t> sizes(op.getBatch()), strides(operand.strides);
  sizes.append({operand.rows, operand.columns});
  if (strides.size() != sizes.size())
    return op.emitOpError() << "has a wrong number of " << operand.name
                            << " strides: " << strides.size();
  sizes.push_back(op.getCount());
  strides.push_back(operand.experts);
  int64_t behind = operand.type.getNumElements() - 1; // of elements that are there
  for (auto [size, stride] : llvm::zip_equal(sizes, strides)) {
    if (size < 1 || stride < 0)
      return op.emitOpError() << "has a " << operand.name << " of bad size or stride: " << size
                              << ", " << stride;
    if (size > 1 && stride > behind / (size - 1))
      return op.emitOpError() << "addresses beyond the elements of its " << operand.name << ": "
                              << size << " times " << stride;
    behind -= (size - 1) * stride;
  }
  return success();
}

LogicalResult GroupedMatmulOp::verify() {
  ArrayRef<int64_t> mnk = getMnk(), experts = getExperts();
  if (mnk.size() != 3 || experts.size() != 3)
    return emitOpError("must have three sizes, and three strides of experts");
  if (llvm::count(experts, 0) != 2)
    return emitOpError("one of lhs, rhs and result must have experts: ") << experts;
  auto choices = cast<RankedTensorType>(getChoices().getType());
  if (!choices.getElementType().isInteger(32) && !choices.getElementType().isInteger(64))
    return emitOpError("choices must be i32 or i64: ") << choices;
  int64_t products = 1;
  for (int64_t size : getBatch())
    products *= size;
  if (choices.getNumElements() != products)
    return emitOpError("must have a choice for each of ") << products << " products: " << choices;
  auto typeOf = [](Value value) { return cast<RankedTensorType>(value.getType()); };
  const Type element = typeOf(getLhs()).getElementType();
  if (!isa<FloatType>(element) || typeOf(getRhs()).getElementType() != element)
    return emitOpError() << "must have operands of one float type: " << getLhs().getType()
                         << " and " << getRhs().getType();
  if (getResultStrides().empty() || getResultStrides().back() != 1)
    return emitOpError() << "columns of the result must lie side by side: " << getResultStrides();
  if (failed(verifyOperand(*this, {"left operand", typeOf(getLhs()), getLhsStrides(), mnk[0],
                                   mnk[2], experts[0]})) ||
      failed(verifyOperand(
          *this, {"right operand", typeOf(getRhs()), getRhsStrides(), mnk[2], mnk[1], experts[1]})))
    return failure();
  return verifyOperand(
      *this, {"result", typeOf(getResult()), getResultStrides(), mnk[0], mnk[1], experts[2]});
}

} // namespace dtc::exec

#define GET_OP_CLASSES
#include "dtc/Dialect/Exec/GroupedMatmulOp.cpp.inc"
