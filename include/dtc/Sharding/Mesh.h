// A mesh: the devices of one stage arranged in a grid with named axes.
//
// Axes are listed outermost first and ranks count in row-major order: on <dp=2, tp=4> rank 5 has
// the coordinates dp=1, tp=1. Axes are atomic: a tensor dimension is split by whole axes, never by
// a part of one. A plan may have to split a degree: 2 key-value heads under tp=4 are split by 2 and
// replicated by 2. The mesh then has two axes of the same degree, <tp.0=2, tp.1=2>. Together, in
// this order, they mean what one axis of size 4 would.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtc::sharding {

/// Index into Mesh::axes.
using AxisId = int;
using AxisList = std::vector<AxisId>;

struct MeshAxis {
  std::string name;   ///< unique in the mesh: "dp", "tp" or "tp.0", "tp.1"
  std::string degree; ///< the degree of parallelism it belongs to: "dp", "tp", ...
  int64_t size = 1;
  /// How far apart on the devices its neighbours are; 0: as far as ranks count.
  int64_t stride = 0;
  bool operator==(const MeshAxis &) const = default;
};

struct Mesh {
  std::vector<MeshAxis> axes;

  /// Number of devices: the product of the axis sizes.
  int64_t devices() const;
  /// Product of the sizes of `list`.
  int64_t size(const AxisList &list) const;
  /// Of an axis, on the devices.
  int64_t stride(AxisId axis) const;
  /// Coordinates of a rank, one per axis.
  std::vector<int64_t> coordinates(int64_t rank) const;
  /// The rank's position within `list`, row-major, and the ranks (ascending by
  /// that position) that differ from `rank` only in the axes of `list`.
  int64_t position(int64_t rank, const AxisList &list) const;
  std::vector<int64_t> group(int64_t rank, const AxisList &list) const;
  /// The axis named `name`, or -1.
  AxisId find(const std::string &name) const;
  /// All axes of a degree ("tp" gives tp.0 and tp.1), outermost first.
  AxisList ofDegree(const std::string &degree) const;

  bool operator==(const Mesh &) const = default;
};

/// Checks axes of a sharding, each of which may be used once. The mesh must outlive it.
class AxisUses {
public:
  explicit AxisUses(const Mesh &mesh) : mesh(mesh), used(mesh.axes.size(), false) {}
  /// Empty when the axis is in the mesh and is used for the first time; else what is wrong.
  std::string add(AxisId axis);

private:
  const Mesh &mesh;
  std::vector<bool> used;
};

} // namespace dtc::sharding
