// What a plan costs: the time of a step and what it is spent on, and the memory of each rank.
//
// Two ranks under 1F1B, three microbatches, 1 s forward and 2 s backward on each, half a second a
// message. The step of dtc/Simulate/Simulate.h takes 14 s, which are told as the ranks' mean:
//
//   computing 9, waiting for messages that are on their way, and the rest: the pipeline's bubble
#pragma once

#include "dtc/Plan/Plan/Cluster.h"
#include "dtc/Plan/Plan/Plan.h"
#include "dtc/Plan/Plan/Workspace.h"
#include "dtc/Simulate/Simulate.h"

#include <algorithm>

namespace dtc::plan {

struct CollectiveUse {
  sharding::StepKind kind = sharding::StepKind::AllReduce;
  std::string axis;  ///< degrees of the group, "dp", "tp" or "dp,tp"
  int64_t count = 0; ///< calls per step and rank
  int64_t bytes = 0; ///< of one call and rank
  double seconds = 0; ///< of all calls
  bool send = false; ///< to the next or last pipeline stage; `kind` says nothing then
  bool operator==(const CollectiveUse &) const = default;
};

/// Bytes of one rank.
struct MemoryUse {
  int64_t parameters = 0, gradients = 0, optimizer = 0, data = 0, activations = 0;
  int64_t reserved = 0;  ///< context, library workspace and communication buffers
  int64_t workspace = 0; ///< of that, the libraries', which PyTorch counts as allocated
  /// Held by a caching allocator beyond what is allocated.
  int64_t cached = 0;
  int64_t allocated() const { return parameters + gradients + optimizer + data + activations; }
  int64_t total() const { return allocated() + reserved + cached; }
  bool operator==(const MemoryUse &) const = default;
};

/// What offloaded states take of the memory of one node's host.
struct HostUse {
  int64_t node = -1;   ///< -1: nothing is offloaded
  int64_t ranks = 0;   ///< of the plan, in the node
  double bytes = 0;    ///< of all of them
  double capacity = 0; ///< 0: not known
  int64_t unknown = 0; ///< nodes of the plan of which it isn't: nothing is checked there
  bool isKnown() const { return capacity > 0; }
  double shortBytes() const { return isKnown() && bytes > capacity ? bytes - capacity : 0; }
  bool operator==(const HostUse &) const = default;
};

/// Of one pipeline stage; figures are of one rank.
struct StagePrediction {
  int64_t firstLayer = -1, lastLayer = -1; ///< blocks that it has a part of; -1: none
  std::vector<int64_t> devices;
  int64_t parameters = 0; ///< stored
  int64_t peakMemory = 0; ///< bytes, of all stages of the rank
  MemoryUse memory;       ///< what makes it up
  double memoryCapacity = 0; ///< of the smallest of its devices
  bool fits() const { return double(peakMemory) <= memoryCapacity; }
  double forwardSeconds = 0, backwardSeconds = 0; ///< of one microbatch
  bool operator==(const StagePrediction &) const = default;
};

/// Seconds of a step by what they are spent on, mean over the ranks; together
/// they are the step.
struct StepParts {
  double compute = 0; ///< forward and backward, each once
  double recompute = 0;
  double update = 0; ///< of the optimizer, without its communication
  double bubble = 0; ///< idle
  /// Communication while nothing is computed, by the degrees whose ranks take
  /// part: {"tp", 0.2}, and "pp" for what stages send each other.
  std::vector<std::pair<std::string, double>> exposed;
  double exposedSeconds() const;
  double total() const;
  bool operator==(const StepParts &) const = default;
};

struct Prediction {
  double stepSeconds = 0;
  /// Of one microbatch through all stages, communication included.
  double forwardSeconds = 0, backwardSeconds = 0;
  double communicationSeconds = 0; ///< of a step, while nothing is computed
  double bubbleFraction = 0;       ///< of the step, mean over ranks
  double updateSeconds = 0;        ///< sums of gradients included
  StepParts parts;                 ///< of stepSeconds
  double modelFlops = 0; ///< of a step over all devices, forward and backward contractions
  double paddingFlops = 0; ///< beside them, those on padding (dtc/Plan/Plan/Padding.h)
  /// Of the rank that fills its device most (of equal devices: that needs most), and
  /// what that has.
  MemoryUse memory;
  double memoryCapacity = 0;
  HostUse host; ///< of the node that fills its host most
  std::vector<StagePrediction> stages;
  bool fits() const { return shortBytes() <= 0 && host.shortBytes() <= 0; }
  /// Of a device's memory, by which the plan misses it.
  double shortBytes() const { return std::max(0.0, double(memory.total()) - memoryCapacity); }
  std::vector<CollectiveUse> collectives; ///< of the rank that communicates longest
  bool operator==(const Prediction &) const = default;
};

/// What a complete plan costs. Independent of how the plan was found. Without a
/// workspace, its memory is that of tensors alone.
Prediction predict(const Problem &problem, const Plan &plan, const Cluster &cluster,
                   const Workspace *workspace = nullptr);

/// The step behind a prediction, with all events and each rank's memory over
/// time, whose highest peak is Prediction::memory. Its error says why a plan's
/// schedule can't be.
simulate::Timeline simulateStep(const Problem &problem, const Plan &plan, const Cluster &cluster,
                                const Workspace *workspace = nullptr);

} // namespace dtc::plan
