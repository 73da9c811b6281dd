// The shardings of a model under given degrees, solved for the least cost.
#pragma once

#include "dtc/Plan/Plan/Cluster.h"
#include "dtc/Plan/Plan/Plan.h"

namespace dtc::plan {

struct SolverOptions {
  std::optional<bool> sequenceParallel;
  double secondsPerByte = 0; ///< price of memory
  int64_t devices = 0;         ///< of the whole plan; 0: as the degrees say
  int64_t numMicrobatches = 0; ///< 0: the problem's
  int64_t tableLimit = int64_t{1} << 22; ///< entries of the largest table
  /// Decided beforehand: how a forward op is sharded, or how a parameter is laid out.
  struct Forced {
    OpId op = -1;
    sharding::OpSharding sharding;
    ValueId argument = -1;
    sharding::TensorSharding tensor;
    bool operator==(const Forced &) const = default;
  };
  std::optional<Forced> forced = std::nullopt;
  /// Of the mesh's axes; without, as the degrees place them.
  std::optional<Strides> strides = std::nullopt;
  bool operator==(const SolverOptions &) const = default;
};

/// Shardings of every op and argument under fixed degrees.
struct Solution {
  Plan plan;
  double seconds = 0; ///< of one step as the solver sees it
  double gap = 0;
};
/// Errors: NoFit.
Result<Solution> solveSharding(const Problem &problem, const ProblemFacts &facts,
                               const Cluster &cluster, const Degrees &degrees,
                               const SolverOptions &options = {});

} // namespace dtc::plan
