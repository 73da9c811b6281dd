// All shardings of a tensor of some rank over a mesh.
#pragma once

#include "dtc/Sharding/TensorSharding.h"

namespace dtc::sharding {

/// Every way to give each axis to nothing, to a dimension (in every order) or
/// to a pending reduction of `kind`.
inline std::vector<TensorSharding> allShardings(size_t rank, const Mesh &mesh, ReduceKind kind) {
  std::vector<TensorSharding> result = {TensorSharding::replicated(rank)};
  for (AxisId axis = 0; axis < static_cast<AxisId>(mesh.axes.size()); ++axis) {
    std::vector<TensorSharding> next;
    for (const TensorSharding &sharding : result) {
      next.push_back(sharding);
      next.push_back(sharding);
      next.back().partial.push_back({axis, kind});
      for (size_t dim = 0; dim < rank; ++dim)
        for (size_t at = 0; at <= sharding.dims[dim].size(); ++at) {
          next.push_back(sharding);
          AxisList &axes = next.back().dims[dim];
          axes.insert(axes.begin() + at, axis);
        }
    }
    result = std::move(next);
  }
  return result;
}

} // namespace dtc::sharding
