// Shardings that hold less, for candidates that memory keeps from their floor.
//
// Shardings at different prices of memory may be faster than those that were solved for speed and
// then have to recompute or offload more. They are tried for small graphs, and for others where
// nothing fits without offload: large models recompute some of many layers, which trades time for
// memory in finer steps. The most promising candidates come first, and the effort is bounded.
#include "Strategies.h"

namespace dtc::plan {

void searchSmallerShardings(SearchState &state, const SearchRound &round) {
  constexpr size_t smallGraph = 256; // ops
  const bool isSmall = state.problem.ops.size() <= smallGraph;
  if (state.found.empty() || !state.cluster.others.empty() || !state.spec.groups.empty() ||
      !(isSmall || round.isLastResort))
    return;
  const int64_t most = state.effort() + (isSmall ? 10000 : 3000);
  Attempt attempt{smallVariants(state)};
  attempt.limit = beatsBest;
  attempt.everySharding = true;
  for (const Candidate &candidate : state.candidates) {
    if (candidate.floor > beatsBest(state) || state.effort() >= most)
      break;
    Degrees degrees = candidate.degrees;
    degrees.offload = round.offload;
    if (candidate.isShort && degrees.tp * degrees.cp * degrees.ep > 1)
      tryCandidate(state, degrees, attempt);
  }
}

} // namespace dtc::plan
