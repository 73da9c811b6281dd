// From one sharding of a tensor to another, as a list of collectives.
//
// The same list prices a reshard in the cost model and is emitted by the
// partitioner, so that what is planned is what runs. On <dp=2, tp=4>,
// tensor<8x64>:
//
//   [{dp},{}] sum{tp}  ->  [{dp},{}]       all_reduce{tp}
//   [{dp},{}] sum{tp}  ->  [{dp},{tp}]     reduce_scatter{tp} dim 1
//   [{dp},{tp}]        ->  [{dp},{}]       all_gather{tp} dim 1
//   [{dp},{}]          ->  [{dp},{tp}]     slice{tp} dim 1     (no communication)
//   [{tp},{}]          ->  [{},{tp}]       all_to_all{tp} dim 0 -> 1
//   [{dp,tp},{}]       ->  [{tp,dp},{}]    permute
#pragma once

#include "dtc/Sharding/TensorSharding.h"

#include <optional>

namespace dtc::sharding {

enum class StepKind : uint8_t { AllReduce, ReduceScatter, AllGather, AllToAll, Permute, Slice };

struct ReshardStep {
  StepKind kind = StepKind::AllReduce;
  AxisList axes;                       ///< the group that communicates, outermost first
  int dim = -1;                        ///< gathered, scattered or sliced; split by all_to_all
  int concatDim = -1;                  ///< all_to_all: the dimension that becomes whole
  ReduceKind reduce = ReduceKind::Sum; ///< all_reduce, reduce_scatter
  TensorSharding after;                ///< the sharding once the step is done
  bool operator==(const ReshardStep &) const = default;
};

/// Steps from `from` to `to`. Nothing when they are equal. nullopt when there
/// is no way: `to` is partial over an axis over which `from` is not.
/// Conventions: all_gather and slice work on the minor end of a dimension's
/// axes; what can be sliced is sliced before anything is gathered.
std::optional<std::vector<ReshardStep>> reshard(const TensorSharding &from,
                                                const TensorSharding &to, const Mesh &mesh);

/// For a permute step between the shardings `before` and `after`: the position
/// in the group of `axes` from which each position receives. Every position
/// sends once; who already holds its part keeps it.
std::vector<int64_t> permuteSources(const TensorSharding &before, const TensorSharding &after,
                                    const AxisList &axes, const Mesh &mesh);

/// Bytes of the buffer a step is called with, per rank: the larger of the
/// local tensor before and after it.
int64_t stepBytes(const ReshardStep &step, const TensorSharding &before,
                  const std::vector<int64_t> &shape, int64_t elementBytes, const Mesh &mesh);

} // namespace dtc::sharding
