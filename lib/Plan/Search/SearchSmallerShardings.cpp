// Shardings that hold less, for candidates that memory keeps from their floor.
//
// The fastest sharding of a mesh may not fit until blocks are recomputed. One that holds less, for
// a little time, may fit as it is. These are found by ever higher prices of memory. Where a model
// has many layers they gained nothing in any job (docs/SearchDimensions.md), and would take up to
// half of the planning.
#include "Strategies.h"

namespace dtc::plan {

void searchSmallerShardings(SearchState &state, const SearchRound &round) {
  constexpr size_t mostOps = 256;
  if (round.isLastResort || state.found.empty() || isPinned(state.spec) ||
      state.problem.ops.size() > mostOps)
    return;
  Attempt attempt = attemptWith(smallVariants(state));
  attempt.limit = beatsBest;
  attempt.everySharding = true;
  for (const Candidate &candidate : state.candidates) {
    if (candidate.floor > beatsBest(state))
      return;
    Degrees degrees = candidate.degrees;
    degrees.offload = round.offload;
    if (candidate.isShort && degrees.tp * degrees.cp * degrees.ep > 1)
      tryCandidate(state, degrees, attempt);
  }
}

} // namespace dtc::plan
