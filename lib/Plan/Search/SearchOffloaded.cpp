// States of the optimizer in the hosts' memory, for candidates that memory keeps from their floor.
//
// What the host holds leaves room: fewer blocks are recomputed, or larger parts of the model are on
// a device. That pays where a step is long enough to bring states back and forth. The host's other
// work may slow that down, so it has to be faster by more than nothing.
#include "Strategies.h"

#include <algorithm>

namespace dtc::plan {

void searchOffloaded(SearchState &state, const SearchRound &round) {
  constexpr double least = 0.995;
  if (!state.mayOffload() || round.isLastResort || state.found.empty())
    return;
  Attempt attempt = attemptWith(plainVariants(state));
  attempt.limit = [below = least * beatsBest(state)](const SearchState &now) {
    return std::min(worthTelling(now), below);
  };
  for (const Candidate &candidate : state.candidates) {
    if (candidate.floor > attempt.limit(state))
      break;
    Degrees degrees = candidate.degrees;
    degrees.offload = Offload::Optimizer;
    if (candidate.isShort)
      tryCandidate(state, degrees, attempt);
  }
}

} // namespace dtc::plan
