// Where a rank stands on the mesh, and which part of a tensor it holds.
//
// Ranks count in row-major order over the axes, outermost first: on
// <dp=2, tp=4> rank 5 has the coordinates dp=1, tp=1. A tensor's sharding
// lists for each dimension the axes that split it, major to minor:
//
//   8x32x64, [[dp], [], [tp]]     rank 5 holds 4x32x16 at offset 4,0,16
#pragma once

#include "dtc-rt/Shape.h"

#include <string>
#include <vector>

namespace dtc::rt {

using AxisList = std::vector<int32_t>;
/// Axes per dimension.
using Sharding = std::vector<AxisList>;

/// The part of a tensor that a rank holds.
struct Shard {
  Dims offset, shape;
  bool first = true; ///< no rank of lower number holds the same part
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

private:
  Dims coordinates(int64_t rank) const;
  std::vector<Axis> axes;
};

} // namespace dtc::rt
