// How one tensor is laid out over a mesh.
//
// Each dimension lists the axes that split it, major to minor; an axis that
// appears in no dimension and is not partial holds copies. A partial axis
// means that every rank along it holds a term and the tensor is their sum (or
// maximum, minimum). On the mesh <dp=2, tp=4> and a tensor<8x32x64>:
//
//   [{dp}, {}, {}]             batch split by 2, shard 4x32x64
//   [{dp}, {}, {tp}]           shard 4x32x16
//   [{}, {}, {dp, tp}]         shard 8x32x8, dp the major part
//   [{dp}, {}, {}] sum{tp}     shard 4x32x64, to be summed over tp
#pragma once

#include "dtc/Sharding/Mesh.h"

#include <string>

namespace dtc::sharding {

enum class ReduceKind : uint8_t { Sum, Max, Min };

struct Partial {
  AxisId axis = 0;
  ReduceKind kind = ReduceKind::Sum;
  auto operator<=>(const Partial &) const = default;
};

struct TensorSharding {
  std::vector<AxisList> dims;
  std::vector<Partial> partial; ///< ascending by axis

  static TensorSharding replicated(size_t rank) { return {std::vector<AxisList>(rank), {}}; }

  bool isPartial(AxisId axis) const;
  /// True when `axis` splits a dimension.
  bool splits(AxisId axis) const;

  /// The shape of one shard; `shape` must be divisible (see `check`).
  std::vector<int64_t> localShape(const std::vector<int64_t> &shape, const Mesh &mesh) const;
  /// Start of the shard of `rank` in each dimension, in elements.
  std::vector<int64_t> localOffset(const std::vector<int64_t> &shape, const Mesh &mesh,
                                   int64_t rank) const;
  /// Empty when the sharding fits shape and mesh: rank equal, every axis known
  /// and used once, every dimension divisible. Otherwise one line that says why not.
  std::string check(const std::vector<int64_t> &shape, const Mesh &mesh) const;
  /// As in the header of this file, with axis names: `[{"dp"}, {}] sum{"tp"}`.
  std::string str(const Mesh &mesh) const;

  bool operator==(const TensorSharding &) const = default;
};

} // namespace dtc::sharding
