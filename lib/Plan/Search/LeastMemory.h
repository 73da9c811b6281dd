// Whether any plan fits, found much sooner than the best one is.
//
// Only plans that save memory in every way are looked at: the smallest microbatches, the highest
// level of ZeRO, everything recomputed, states offloaded. Where none of these fits hardly any other
// does. A search for which nothing fits takes seconds for a large model. So advice on what would
// help asks this first of every SPEC and number of devices.
#pragma once

#include "SearchState.h"

namespace dtc::plan {

/// Asks it of one model and cluster, of many SPECs and numbers of devices. Shardings are solved
/// once for all of them: how much they hold doesn't depend on the devices around them.
class LeastMemory {
public:
  LeastMemory(const Problem &problem, const Cluster &cluster)
      : problem(problem), cluster(cluster) {}
  /// True: `search` finds a plan, too. False: it hardly would, or finding out takes too long.
  bool fits(const SearchOptions &options);
  /// What has been spent, as SearchState::effort.
  int64_t effort() const;

private:
  bool anyFits(SearchState &state, const std::vector<Degrees> &list, Offload offload) const;
  std::vector<ShardVariant> variantsFor(const SearchState &state, const Degrees &degrees) const;

  const Problem &problem;
  const Cluster &cluster;
  std::shared_ptr<ShardLibrary> shardings; ///< of the first question
  double price = 0;                        ///< evenPrice of the first question
  int64_t estimates = 0;
};

} // namespace dtc::plan
