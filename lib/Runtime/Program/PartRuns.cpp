#include "dtc-rt/Program/PartRuns.h"

#include <algorithm>
#include <functional>

namespace dtc::rt {

Dims filledOf(const Dims &shape, const Dims &view) {
  return product(view) == product(shape) ? view : shape;
}

bool mayFill(const Dims &shape, const Dims &filled, const Dims &view) {
  return product(filled) == product(shape) &&
         std::ranges::equal(filled, view, std::ranges::less_equal());
}

PartRuns::PartRuns(const Dims &tensor, const Dims &view, const Part &part)
    : shape(part.shard.shape), whole{view, part.shard.offset}, packed{shape, Dims(shape.size(), 0)},
      begin(part.begin), end(part.end) {
  if (product(view) != product(tensor)) {
    whole.whole = tensor;
    for (size_t dim = 0; dim < shape.size(); ++dim)
      shape[dim] = std::clamp<int64_t>(tensor[dim] - whole.offset[dim], 0, shape[dim]);
  }
  const bool isEmpty = begin >= end || product(shape) == 0;
  mergeFullDims(shape, whole, packed);
  const int64_t rows = isEmpty ? 0 : product(shape) / shape.back();
  first = findRow(rows, begin);
  numRuns = 0;
  if (const int64_t last = findRow(rows, end - 1); first < rows)
    numRuns = last - first + (last < rows && rowAt(last).second < end);
}

std::pair<int64_t, int64_t> PartRuns::rowAt(int64_t row) const {
  int64_t inWhole = whole.offset.back(), inPacked = packed.offset.back();
  int64_t wholeStride = whole.whole.back(), packedStride = packed.whole.back();
  for (size_t dim = shape.size() - 1; dim-- > 0;) {
    const int64_t at = row % shape[dim];
    inWhole += (whole.offset[dim] + at) * wholeStride;
    inPacked += (packed.offset[dim] + at) * packedStride;
    wholeStride *= whole.whole[dim];
    packedStride *= packed.whole[dim];
    row /= shape[dim];
  }
  return {inWhole, inPacked};
}

int64_t PartRuns::findRow(int64_t rows, int64_t element) const {
  int64_t low = 0, high = rows;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (rowAt(middle).second + shape.back() > element)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

PartRuns::Run PartRuns::operator[](int64_t index) const {
  auto [at, start] = rowAt(first + index);
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
