// Shapes of row-major tensors, and boxes in them.
#pragma once

#include "dtc-io/CheckedSize.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtc::rt {

using io::CheckedSize;

using Dims = std::vector<int64_t>;

/// The product of sizes that were checked before.
int64_t product(std::span<const int64_t> sizes);
/// "8x32x64"; "scalar" for no dimension.
std::string shapeText(std::span<const int64_t> shape);

/// The same box of `shape` elements in two row-major tensors: at `offset` of a
/// tensor of shape `whole`. A shard is one such box, as is a rank's part of an
/// all-gather.
struct Box {
  Dims whole, offset;
};

/// Calls run(index in a, index in b, count) for every stretch of elements of
/// the box that is contiguous in both; indices in elements, ascending. The
/// boxes must lie inside their tensors.
template <typename Run> void forEachRun(Dims shape, Box a, Box b, Run &&run);

/// Copies a box of elements of `elementBytes` from one tensor into another.
void copyBox(const Dims &shape, char *target, const Box &targetBox, const char *source,
             const Box &sourceBox, int64_t elementBytes);

// ---------------------------------------------------------------------------

/// Merges trailing dimensions that the box covers in full in both tensors, so
/// that runs are as long as possible. Leaves at least one dimension.
void mergeFullDims(Dims &shape, Box &a, Box &b);

template <typename Run> void forEachRun(Dims shape, Box a, Box b, Run &&run) {
  mergeFullDims(shape, a, b);
  size_t outer = shape.size() - 1;
  for (int64_t size : shape)
    if (size == 0)
      return;
  Dims index(outer, 0);
  for (;;) {
    int64_t inA = 0, inB = 0;
    for (size_t dim = 0; dim <= outer; ++dim) {
      int64_t at = dim < outer ? index[dim] : 0;
      inA = inA * a.whole[dim] + a.offset[dim] + at;
      inB = inB * b.whole[dim] + b.offset[dim] + at;
    }
    run(inA, inB, shape[outer]);
    size_t dim = outer;
    while (dim > 0 && ++index[dim - 1] == shape[dim - 1])
      index[--dim] = 0;
    if (dim == 0)
      return;
  }
}

} // namespace dtc::rt
