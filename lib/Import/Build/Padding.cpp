#include "dtc/Import/Build/Padding.h"

#include "dtc/Import/Build/Indices.h"

#include <algorithm>

using namespace mlir;

namespace dtc::import {

/// Which element of a dimension of `size` stands at the position `at` around it.
static int64_t paddedFrom(PadMode mode, int64_t at, int64_t size) {
  auto modulo = [&](int64_t period) { return (at % period + period) % period; };
  if (mode == PadMode::Edge)
    return std::clamp<int64_t>(at, 0, size - 1);
  if (mode == PadMode::Wrap)
    return modulo(size);
  if (size == 1)
    return 0;
  const int64_t reflected = modulo(2 * (size - 1));
  return reflected < size ? reflected : 2 * (size - 1) - reflected;
}

FailureOr<Value> padFromElements(Conversion &node, Value value, ArrayRef<int64_t> low,
                                 ArrayRef<int64_t> high, PadMode mode) {
  for (auto [dim, before, after] : llvm::enumerate(low, high)) {
    if (before == 0 && after == 0)
      continue;
    const int64_t size = tensorType(value).getDimSize(dim), padded = before + size + after;
    const Type element = node.emit.getI64Type();
    if (size == 0)
      return LogicalResult(node.error() << "has no elements to pad dimension " << dim << " with");
    if (!fitsConstant(element, {padded}))
      return LogicalResult(node.error() << "pads by too much: " << padded - size);
    std::vector<int64_t> from(padded);
    for (int64_t i = 0; i < padded; ++i)
      from[i] = paddedFrom(mode, i - before, size);
    Host at = HostTensor::ofInts(element, {padded}, std::move(from));
    if (failed(node.chargeFolded(Tensor(at))))
      return failure();
    value = gatherAtConstants(node.emit, value, *at, dim);
  }
  return value;
}

} // namespace dtc::import
