#include "dtc/Raise/Shape.h"

#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace dtc::raise {

int64_t product(ArrayRef<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    if (llvm::MulOverflow(result, size, result))
      result = std::numeric_limits<int64_t>::max();
  return result;
}

void forEachIndex(ArrayRef<int64_t> shape, llvm::function_ref<void(ArrayRef<int64_t>)> visit) {
  const int64_t count = product(shape);
  Shape index(shape.size(), 0);
  for (int64_t n = 0; n < count; ++n) {
    visit(index);
    for (size_t i = shape.size(); i-- > 0;) {
      if (++index[i] < shape[i])
        break;
      index[i] = 0;
    }
  }
}

int64_t wrapTo(Type element, int64_t value) {
  const unsigned width = element.getIntOrFloatBitWidth();
  if (width == 1)
    return value != 0;
  if (width == 64)
    return value;
  const uint64_t low = uint64_t(value) & ((uint64_t(1) << width) - 1);
  if (element.isUnsignedInteger())
    return low;
  return int64_t(low << (64 - width)) >> (64 - width);
}

} // namespace dtc::raise
