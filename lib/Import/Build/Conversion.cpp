#include "dtc/Import/Build/Conversion.h"

#include "dtc/Import/Build/FileTensor.h"

using namespace mlir;

namespace dtc::import {

Value Conversion::value(const Tensor &tensor) {
  return tensor.host ? toValue(emit, emit.getLoc(), *tensor.host) : tensor.value;
}

Value Conversion::valueAs(const Tensor &tensor, ArrayRef<int64_t> shape) {
  if (tensor.host)
    return toValue(emit, emit.getLoc(), *expandHost(tensor.host, shape));
  return broadcastTo(emit, tensor.value, shape);
}

FailureOr<int64_t> Conversion::axis(int64_t axis, int64_t rank) {
  const int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank)
    return error() << "axis out of range for rank " << rank << ": " << axis;
  return at;
}

LogicalResult Conversion::checkShape(ArrayRef<int64_t> shape) const {
  const std::string wrong = describeBadShape(shape);
  return wrong.empty() ? success() : error() << "makes a tensor that " << wrong;
}

LogicalResult Conversion::charge(StringRef text) const {
  return text.empty() ? success() : error() << text;
}

LogicalResult Conversion::chargeNodes(int64_t count) { return charge(budget.takeNodes(count)); }

LogicalResult Conversion::chargeFolded(const Tensor &tensor) {
  return tensor.host ? charge(budget.fold(tensor.host->numStored())) : success();
}

LogicalResult Conversion::chargeResult(const Tensor &tensor) {
  if (failed(chargeNodes(tensor.sequence.size())) || failed(chargeFolded(tensor)))
    return failure();
  return tensor.host ? charge(budget.hold(tensor.host->bytes())) : success();
}

LogicalResult Conversion::checkResult(const Tensor &tensor) const {
  if (tensor.isSequence)
    return success();
  if (tensor.value && llvm::is_contained(tensor.shape(), 0))
    return error() << "makes a tensor without elements: " << listed(tensor.shape());
  return checkShape(tensor.shape());
}

} // namespace dtc::import
