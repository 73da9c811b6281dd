// How many devices a model needs, found by planning for ever more of them.
//
// Take 140 GB of weights on devices of 80 GB, and a forward pass alone. One device falls short, and
// tp=2 fits: the answer is 2. Training the same with 16 bytes a parameter, 1.1 TB, takes 16: no
// fewer can even hold the state, so that the search begins there.
#pragma once

#include "dtc/Plan/Search/Search.h"

#include <memory>

namespace dtc::plan {

/// One way to run a problem, and what it takes.
struct SizedPlan {
  Degrees degrees;
  Prediction predicted;
  /// Of the rank that holds most of it: keys and values that generating the next
  /// tokens needs (0 where the problem has a backward pass).
  int64_t cacheBytes = 0;
  int64_t total() const { return predicted.memory.total() + cacheBytes; }
  bool fits() const { return double(total()) <= predicted.memoryCapacity; }
};

struct SizingOptions {
  int64_t samples = 1;       ///< of a microbatch and data-parallel rank
  int64_t microbatches = 16; ///< of a step, where there is a backward pass
  int64_t mostDevices = 16384;
};

/// Plans a problem for given numbers of devices of one cluster. A problem with a
/// backward pass is trained; without one, a single microbatch goes forward and all
/// devices share one copy of the model.
class ClusterSizer {
public:
  ClusterSizer(const Problem &problem, const Cluster &cluster, const SizingOptions &options);

  ~ClusterSizer();

  /// On so many devices, the fastest plan among those that hold least (full
  /// recomputation, ZeRO-3); nothing where none fits.
  std::optional<SizedPlan> on(int64_t devices);
  /// That on the fewest devices that do: a power of two, eights of a larger node, or
  /// several whole nodes.
  /// Nothing: not even `mostDevices`, or all of the cluster, do.
  std::optional<SizedPlan> smallest();
  /// On so many devices, tensor parallelism is none or of a node. Pipelines are over what is left,
  /// or none. ZeRO is 0, 1 or 3. Each has every kind of recomputation. In this order; without those
  /// that can't be.
  std::vector<SizedPlan> configurations(int64_t devices);
  int64_t mostDevices() const { return options.mostDevices; }

private:
  class Planner;
  int64_t leastDevices() const;
  std::vector<int64_t> counts(int64_t least) const;

  const Problem &problem;
  const Cluster &cluster;
  SizingOptions options;
  bool trains;
  std::unique_ptr<Planner> planner;
};

/// Keys and values of all attention of the problem in one rank's memory, of the
/// pipeline rank that has most.
int64_t cacheBytes(const Problem &problem, const Plan &plan);

} // namespace dtc::plan
