// What ranks gathered of activations is gathered again in the backward pass, where memory is short.
//
// Sequence parallelism gathers what products read over tp, and context parallelism keys and values.
// A rank that doesn't keep these copies holds less. So it may recompute fewer blocks or have larger
// microbatches. Where memory isn't short, gathering again only takes time. Shardings don't depend
// on it, so that none is solved for it.
//
// A block that is recomputed is gathered again in any case. So no more candidates fit for it, and
// plans that recompute blocks are tried with it once more. Where recomputation is left out, all
// candidates that memory keeps from their floor are tried.
#include "Strategies.h"

namespace dtc::plan {

/// What other programs gather again is part of their software.
bool mayRegather(const SearchState &state, const Degrees &degrees) {
  if (state.spec.regather || isPinned(state.spec) || state.options.abilities.hasLimits() ||
      state.cluster.software != Software() || !state.trains())
    return false;
  return degrees.cp > 1 || mostTensorRanks(degrees) > 1;
}

static void tryShort(SearchState &state, const SearchRound &round) {
  Attempt attempt = attemptWith(round.shardings);
  attempt.limit = beatsBest;
  for (const Candidate &candidate : state.candidates) {
    if (candidate.floor > beatsBest(state))
      return;
    if (!candidate.isShort || !mayRegather(state, candidate.degrees) ||
        ((state.found.empty() || state.confirms) &&
         isOutOfReach(state, candidate.degrees, round.offload)))
      continue;
    Degrees degrees = candidate.degrees;
    degrees.regather = true;
    degrees.offload = round.offload;
    tryCandidate(state, degrees, attempt);
  }
}

void searchRegathered(SearchState &state, const SearchRound &round) {
  if (state.recomputations().back() != Recompute::Full)
    return tryShort(state, round);
  const std::vector<Estimate> found = state.found;
  for (const Estimate &known : found)
    if (known.degrees.recompute != Recompute::None && mayRegather(state, known.degrees)) {
      Degrees degrees = known.degrees;
      degrees.regather = true;
      keepIfFaster(state, known, degrees, known.perSample());
    }
}

} // namespace dtc::plan
