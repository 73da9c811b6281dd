// Where a rank stands on the mesh, and which part of a tensor it holds.
//
// Ranks count in row-major order over the axes, outermost first: on
// <dp=2, tp=4> rank 5 has the coordinates dp=1, tp=1. A tensor's sharding
// lists for each dimension the axes that split it, major to minor:
//
//   8x32x64, [[dp], [], [tp]]     rank 5 holds 4x32x16 at offset 4,0,16
//
// A placement may divide that part further, flattened, as a range of a bucket
// (Program.fbs has an example). On a mesh that only some ranks of the world are
// on, a rank is meant by its position.
#pragma once

#include "dtc-rt/Program/Shape.h"

#include <algorithm>
#include <string>
#include <vector>

namespace dtc::rt {

using AxisList = std::vector<int32_t>;
/// Axes per dimension.
using Sharding = std::vector<AxisList>;

struct Placement {
  Sharding dims;
  AxisList flatAxes; ///< none: the shard lies as it is
  int64_t bucketOffset = 0, bucketElements = 0;
};

/// The part of a tensor that a rank's sharding gives it.
struct Shard {
  Dims offset, shape;
  bool first = true; ///< no rank of lower number holds the same part
};

/// What a rank holds of a tensor: of its shard's elements, row-major, those in [begin, end).
/// They lie from element `at` on of what the rank stores, which is `stored` elements long.
struct Part {
  Shard shard;
  int64_t begin = 0, end = 0, at = 0, stored = 0;
  /// All of a tensor.
  static Part whole(const Dims &shape);
};

class RankMesh {
public:
  struct Axis {
    std::string name;
    int64_t size = 1;
  };

  RankMesh() = default;
  explicit RankMesh(std::vector<Axis> axes) : axes(std::move(axes)) {}

  const std::vector<Axis> &getAxes() const { return axes; }
  /// The axis of that name, or -1.
  int32_t find(const std::string &name) const;
  int64_t numRanks() const;
  int64_t sizeOf(const AxisList &list) const;
  /// The rank's position among those that differ only in `list`, row-major over it.
  int64_t position(int64_t rank, const AxisList &list) const;
  /// Those ranks, by position.
  std::vector<int> group(int64_t rank, const AxisList &list) const;
  /// The rank's part of a tensor; every dimension must be divisible.
  Shard shard(const Dims &shape, const Sharding &sharding, int64_t rank) const;
  Part part(const Dims &shape, const Placement &placement, int64_t rank) const;
  /// The rank's share of its part: those that hold the same elements have disjoint shares, which
  /// make up the part.
  Part share(const Dims &shape, const Placement &placement, int64_t rank) const;

private:
  Dims coordinates(int64_t rank) const;
  /// The axes along which ranks hold the same part.
  AxisList copyAxes(const Placement &placement) const;
  std::vector<Axis> axes;
};

/// Calls run(index in the tensor, index in what the rank stores, count) for every stretch of
/// the part that is contiguous in both; ascending.
template <typename Run> void forEachRun(const Dims &tensor, const Part &part, Run &&run) {
  Box whole{tensor, part.shard.offset};
  Box packed{part.shard.shape, Dims(part.shard.shape.size(), 0)};
  forEachRun(part.shard.shape, whole, packed, [&](int64_t at, int64_t local, int64_t count) {
    int64_t first = std::max(local, part.begin), last = std::min(local + count, part.end);
    if (first < last)
      run(at + first - local, part.at + first - part.begin, last - first);
  });
}

} // namespace dtc::rt
