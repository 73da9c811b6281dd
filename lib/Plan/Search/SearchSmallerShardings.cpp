// Shardings that hold less, for candidates that memory keeps from their floor.
//
// Where memory asks for more than speed alone would have, the Pareto front of a step's time and
// of what a sharding holds may have a faster plan. It is found for small graphs. Of others the
// shardings at different prices of memory are tried, where nothing fits without offload. The most
// promising candidates come first, and the effort is bounded.
#include "Strategies.h"

namespace dtc::plan {

/// No rank can hold its part of these states, however they are divided.
static bool holdsTooMuch(const SearchState &state, const Degrees &degrees, double states) {
  int64_t storing = degrees.zeroGroup > 0 ? degrees.zeroGroup : degrees.dp;
  double ranks = double(degrees.pp);
  if (degrees.zero > 0)
    ranks *= double(storing * degrees.ep * degrees.cp);
  return degrees.offload == Offload::None &&
         states > ranks * state.shardings.getModel().memoryPerRank();
}

/// The Pareto front of these degrees.
static std::vector<ShardVariant> frontVariants(SearchState &state, const Degrees &degrees) {
  std::vector<ShardVariant> result;
  const ShardingSolver::Frontier *front = state.shardings.frontier(degrees, state.spec.sp);
  for (size_t i = 0; front && i < front->shardings.size(); ++i)
    if (!holdsTooMuch(state, degrees, front->shardings[i].states))
      result.push_back({state.spec.sp, evenPrice(state), static_cast<int32_t>(i)});
  return result;
}

void searchSmallerShardings(SearchState &state, const SearchRound &round) {
  const bool isSmall = state.shardings.isSmall();
  if (state.found.empty() || !state.cluster.others.empty() || !state.spec.groups.empty() ||
      !(isSmall || round.isLastResort))
    return;
  const int64_t most = state.effort() + (isSmall ? 10000 : 3000);
  Attempt attempt = attemptWith(smallVariants(state));
  if (isSmall)
    attempt.variants = frontVariants;
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
