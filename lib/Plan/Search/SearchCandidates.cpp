// All candidates in the order of their floors, until no floor is below the best plan.
//
// A candidate's floor is the work of one data-parallel rank's microbatches through its
// pipeline, cut as well as it can be (PipelineFloor.h). Until one is found, what holds least of
// each candidate is looked at first: where nothing fits, this takes a fraction of trying all. Where
// plans are confirmed, this goes on, as it spares confirming many plans of a mesh that can't fit.
#include "Strategies.h"

namespace dtc::plan {

Attempt attemptWith(std::vector<ShardVariant> shardings) {
  Attempt attempt;
  attempt.variants = [shardings = std::move(shardings)](SearchState &, const Degrees &) {
    return shardings;
  };
  return attempt;
}

void searchCandidates(SearchState &state, const SearchRound &round) {
  const Attempt attempt = attemptWith(round.shardings);
  for (Candidate &candidate : state.candidates) {
    if (candidate.floor > worthTelling(state))
      return;
    if ((state.found.empty() || state.confirms) &&
        isOutOfReach(state, candidate.degrees, round.offload)) {
      candidate.isShort = true;
      continue;
    }
    Degrees degrees = candidate.degrees;
    degrees.offload = round.offload;
    bool wasShort = tryCandidate(state, degrees, attempt);
    candidate.isShort = candidate.isShort || wasShort;
  }
}

} // namespace dtc::plan
