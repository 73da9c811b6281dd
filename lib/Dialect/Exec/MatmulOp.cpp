#include "dtc/Dialect/Exec/Exec.h"

using namespace mlir;

namespace dtc::exec {
namespace {

/// One tensor of a product: its type, and the grid by which it is addressed.
struct Operand {
  StringRef name;
  RankedTensorType type;
  ArrayRef<int64_t> strides;
  int64_t offset, rows, columns;
};

/// Checks that every element of the grid lies within the tensor.
LogicalResult verifyOperand(MatmulOp op, const Operand &operand) {
  SmallVector<int64_t> sizes(op.getBatch());
  sizes.append({operand.rows, operand.columns});
  if (operand.strides.size() != sizes.size())
    return op.emitOpError() << "has a wrong number of " << operand.name
                            << " strides: " << operand.strides.size();
  int64_t last = operand.offset;
  for (auto [size, stride] : llvm::zip(sizes, operand.strides)) {
    if (size < 1 || stride < 0)
      return op.emitOpError() << "has a " << operand.name << " of bad size or stride: " << size
                              << ", " << stride;
    last += (size - 1) * stride;
  }
  if (operand.offset < 0 || last >= operand.type.getNumElements())
    return op.emitOpError() << "addresses beyond the elements of its " << operand.name << ": "
                            << last;
  return success();
}

} // namespace

LogicalResult MatmulOp::verify() {
  auto lhs = cast<RankedTensorType>(getLhs().getType());
  auto rhs = cast<RankedTensorType>(getRhs().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  if (getMnk().size() != 3 || getOffsets().size() != 2)
    return emitOpError("needs three matrix sizes and two offsets");
  if (lhs.getElementType() != rhs.getElementType())
    return emitOpError() << "has operands of different element types: " << lhs.getElementType()
                         << ", " << rhs.getElementType();
  int64_t m = getMnk()[0], n = getMnk()[1], k = getMnk()[2];
  const Operand operands[] = {{"lhs", lhs, getLhsStrides(), getOffsets()[0], m, k},
                              {"rhs", rhs, getRhsStrides(), getOffsets()[1], k, n},
                              {"result", result, getResultStrides(), 0, m, n}};
  for (const Operand &operand : operands)
    if (failed(verifyOperand(*this, operand)))
      return failure();
  int64_t written = m * n;
  for (int64_t size : getBatch())
    written *= size;
  if (written != result.getNumElements())
    return emitOpError() << "writes a wrong number of elements: " << written;
  return success();
}

} // namespace dtc::exec
