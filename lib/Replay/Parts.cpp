#include "Parts.h"

#include "Accesses.h"

#include <algorithm>
#include <map>

namespace dtc::replay {
namespace {

/// Bytes [begin, end) of each row.
struct Columns {
  uint64_t rowBytes, begin, end;
};

/// Steps from one element to the next larger one, as long as they lie evenly: the first dimension
/// that leaves a gap begins rows, and all that are larger must go on with these.
bool columnsOf(const Part &part, uint64_t bytes, Columns &found) {
  const uint64_t element = sizeOf(part.tensor->dtype);
  std::multimap<uint64_t, uint64_t> sizes; // by stride, in bytes
  for (size_t i = 0; i < part.tensor->shape.size() && i < part.tensor->strides.size(); ++i) {
    if (part.tensor->shape[i] < 1 || part.tensor->strides[i] < 0)
      return false;
    if (part.tensor->shape[i] > 1)
      sizes.emplace(uint64_t(part.tensor->strides[i]) * element, uint64_t(part.tensor->shape[i]));
  }
  uint64_t width = element, rowBytes = 0, covered = element;
  for (auto [stride, size] : sizes) {
    if (stride != covered) {
      if (rowBytes || stride < covered)
        return false;
      rowBytes = stride;
    }
    covered = stride * size;
    if (!rowBytes)
      width = covered;
  }
  found = {rowBytes ? rowBytes : bytes, part.offset, part.offset + width};
  return (rowBytes ? covered : bytes) == bytes && found.end <= found.rowBytes;
}

} // namespace

bool makeUp(const std::vector<Part> &parts, uint64_t bytes) {
  std::vector<Columns> all(parts.size());
  for (size_t i = 0; i < parts.size(); ++i)
    if (!columnsOf(parts[i], bytes, all[i]))
      return false;
  std::ranges::sort(all, {}, &Columns::begin);
  uint64_t end = 0;
  for (const Columns &columns : all) {
    if (columns.begin != end || columns.rowBytes != all.front().rowBytes)
      return false;
    end = columns.end;
  }
  return !all.empty() && end == all.front().rowBytes;
}

} // namespace dtc::replay
