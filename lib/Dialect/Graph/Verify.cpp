#include "Verify.h"

using namespace mlir;

namespace dtc::graph {

static std::string shapeString(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '[';
  llvm::interleaveComma(shape, os);
  os << ']';
  return text;
}

Type accumulatorType(Value value) {
  Builder builder(value.getContext());
  return getElementTypeOrSelf(value).isF64() ? builder.getF64Type() : builder.getF32Type();
}

LogicalResult verifyDim(Operation *op, int64_t dim, int64_t rank, StringRef what) {
  if (dim >= 0 && dim < rank)
    return success();
  return op->emitOpError() << what << " outside a tensor of rank " << rank << ": " << dim;
}

LogicalResult verifyRank(Operation *op, Value value, int64_t rank, StringRef what) {
  int64_t actual = shapeOf(value).size();
  if (actual == rank)
    return success();
  return op->emitOpError() << what << " must have rank " << rank << ": " << actual;
}

LogicalResult verifyShape(Operation *op, Value value, ArrayRef<int64_t> expected, StringRef what) {
  if (shapeOf(value) == expected)
    return success();
  return op->emitOpError() << what << " must have the shape " << shapeString(expected) << ": "
                           << shapeString(shapeOf(value));
}

LogicalResult verifyElementType(Operation *op, Value value, Type expected, StringRef what) {
  Type actual = getElementTypeOrSelf(value);
  if (actual == expected)
    return success();
  return op->emitOpError() << what << " must have the element type " << expected << ": " << actual;
}

LogicalResult verifySameElementType(Operation *op, Value value, Value other, StringRef what) {
  return verifyElementType(op, value, getElementTypeOrSelf(other), what);
}

LogicalResult verifyLike(Operation *op, Value value, Value other, StringRef what) {
  if (failed(verifySameElementType(op, value, other, what)))
    return failure();
  return verifyShape(op, value, shapeOf(other), what);
}

LogicalResult verifyStatistic(Operation *op, Value value, Value input, ArrayRef<int64_t> shape,
                              StringRef what) {
  if (failed(verifyElementType(op, value, accumulatorType(input), what)))
    return failure();
  return verifyShape(op, value, shape, what);
}

LogicalResult verifyFloat(Operation *op, Value value, StringRef what) {
  Type type = getElementTypeOrSelf(value);
  if (isa<FloatType>(type))
    return success();
  return op->emitOpError() << what << " must have a float element type: " << type;
}

LogicalResult verifyIndices(Operation *op, Value value, StringRef what) {
  Type type = getElementTypeOrSelf(value);
  if (type.isSignlessInteger(32) || type.isSignlessInteger(64))
    return success();
  return op->emitOpError() << what << " must have the element type i32 or i64: " << type;
}

LogicalResult verifySameOrWider(Operation *op, Value value, Value from, StringRef what) {
  Type to = getElementTypeOrSelf(value), source = getElementTypeOrSelf(from);
  if (to == source)
    return success();
  if (isa<FloatType>(to) && isa<FloatType>(source) &&
      to.getIntOrFloatBitWidth() > source.getIntOrFloatBitWidth())
    return success();
  return op->emitOpError() << what << " must have the element type " << source
                           << " or a wider float: " << to;
}

LogicalResult verifyLength(Operation *op, ArrayRef<int64_t> list, int64_t length, StringRef what) {
  if (static_cast<int64_t>(list.size()) == length)
    return success();
  return op->emitOpError() << what << " must have " << length << " entries: " << list.size();
}

LogicalResult verifyEachAtLeast(Operation *op, ArrayRef<int64_t> list, int64_t least,
                                StringRef what) {
  for (int64_t value : list)
    if (value < least)
      return op->emitOpError() << what << " must be at least " << least << ": " << value;
  return success();
}

} // namespace dtc::graph
