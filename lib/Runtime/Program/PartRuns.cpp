#include "dtc-rt/Program/PartRuns.h"

#include <algorithm>

namespace dtc::rt {

PartRuns::PartRuns(const Dims &tensor, const Part &part)
    : shape(part.shard.shape), whole{tensor, part.shard.offset}, begin(part.begin), end(part.end) {
  Box packed{shape, Dims(shape.size(), 0)};
  mergeFullDims(shape, whole, packed);
  bool isEmpty = begin >= end;
  first = isEmpty ? 0 : begin / shape.back();
  numRuns = isEmpty ? 0 : (end - 1) / shape.back() + 1 - first;
}

PartRuns::Run PartRuns::operator[](int64_t index) const {
  int64_t start = (first + index) * shape.back(), rest = first + index;
  int64_t at = whole.offset.back(), stride = whole.whole.back();
  for (size_t dim = shape.size() - 1; dim-- > 0;) {
    at += (whole.offset[dim] + rest % shape[dim]) * stride;
    stride *= whole.whole[dim];
    rest /= shape[dim];
  }
  int64_t from = std::max(start, begin), to = std::min(start + shape.back(), end);
  return {at + from - start, from - begin, to - from};
}

int64_t PartRuns::findEndingAfter(int64_t element) const {
  int64_t low = 0, high = numRuns;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if ((*this)[middle].end() > element)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

} // namespace dtc::rt
