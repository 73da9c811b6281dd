// Some blocks stored by one level of ZeRO and the rest by the level below (Storage.h).
//
// It is tried for what has been found of single levels where the lower level doesn't fit as it
// is, and kept where it beats all that is known.
#include "Strategies.h"

#include <algorithm>
#include <set>

namespace dtc::plan {

/// Whether all can be stored by the level below, with nothing recomputed.
static bool fitsBelow(const SearchState &state, Degrees degrees) {
  --degrees.zero;
  degrees.recompute = Recompute::None;
  return std::any_of(state.found.begin(), state.found.end(),
                     [&](const Estimate &other) { return other.degrees == degrees; });
}

/// Kept if faster than the best by more than estimates are off.
static void tryBetweenLevels(SearchState &state, const Degrees &degrees,
                             const ShardVariant &variant) {
  constexpr double worthMixing = 0.99;
  EstimateOptions asked;
  asked.limit = worthMixing * beatsBest(state) * double(degrees.samples());
  asked.someBlocks = state.recomputesSome(degrees);
  asked.mixesLevels = true;
  Estimate mixed;
  if (state.estimate(degrees, variant, asked, mixed) == Estimator::Outcome::Found)
    state.keep(std::move(mixed));
}

void searchBetweenZeroLevels(SearchState &state, const SearchRound &) {
  if (state.found.empty() || state.spec.zero)
    return;
  std::set<std::pair<Degrees, ShardVariant>> tried;
  double most = worthTelling(state);
  for (const Estimate &known : std::vector<Estimate>(state.found)) {
    if (!known.degrees.groups.empty() || known.perSample() > most)
      continue;
    bool recomputes = known.degrees.recompute != Recompute::None;
    Degrees degrees = known.degrees;
    degrees.recomputeBlocks = 0;
    if (!recomputes)
      degrees.recompute = state.recomputations().front();
    // The level below, if it fits as it is, needs no part of this one.
    for (int zero : {known.degrees.zero, known.degrees.zero + 1}) {
      degrees.zero = zero;
      bool isOpen = zero == known.degrees.zero ? !fitsBelow(state, degrees) : recomputes;
      if (zero >= 2 && zero <= 3 && isOpen && tried.insert({degrees, known.variant}).second)
        tryBetweenLevels(state, degrees, known.variant);
    }
  }
}

} // namespace dtc::plan
