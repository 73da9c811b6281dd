// Shardings that hold less, for candidates that memory keeps from their floor.
//
// Where nothing fits without offload, shardings at different prices of memory may be faster with
// it than those that were solved for speed. The most promising candidates come first, and the
// effort is bounded.
#include "Strategies.h"

namespace dtc::plan {

void searchSmallerShardings(SearchState &state, const SearchRound &round) {
  if (state.found.empty() || !state.cluster.others.empty() || !state.spec.groups.empty() ||
      !round.isLastResort)
    return;
  const int64_t most = state.effort() + 3000;
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
