// Solvers of shardings that are asked again at another price of memory.
//
// A search tries shardings at up to a dozen prices. Choices, what they cost, and the network of
// these are the same for all prices (ShardingSolver). Solvers that were used last are kept:
//
//   asked of        at the price   built
//   tp=2, batch 8   0              choices, terms, network
//   tp=4, batch 8   0              choices, terms, network
//   tp=2, batch 8   1e-12 s        nothing
#pragma once

#include "dtc/Plan/Shard/ShardingSolver.h"

#include <list>
#include <mutex>

namespace dtc::plan {

/// Of one cluster. Several threads at a time may ask.
class SolverStore {
public:
  explicit SolverStore(const Cluster &cluster) : cluster(cluster) {}

  /// A problem, which must outlive this. `folding`: of which it is, perhaps with another batch.
  struct Task {
    const Problem &problem;
    const ProblemFacts &facts;
    std::shared_ptr<const OpBundles> bundles;
    const Folding *folding = nullptr;
  };
  /// As ShardingSolver::solve, or solveFolded where there is a folding.
  std::optional<Result<Solution>> solve(const Task &task, const Degrees &degrees,
                                        const SolverOptions &options);
  /// How many networks were built.
  int64_t networks() const;

private:
  static constexpr size_t kMostKept = 32;

  struct Kept {
    const Problem *problem;
    ShardingConditions conditions;
    std::mutex mutex; ///< of the solver, which one thread at a time asks
    std::unique_ptr<ShardingSolver> solver = nullptr;
  };
  std::shared_ptr<Kept> keptFor(const Task &task, const Degrees &degrees,
                                const SolverOptions &options);

  const Cluster &cluster;
  mutable std::mutex mutex;
  std::list<std::shared_ptr<Kept>> kept; ///< those used last come first
  int64_t built = 0;
};

} // namespace dtc::plan
