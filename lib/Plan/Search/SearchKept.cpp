// The most microbatches that ranks may keep, by a schedule that takes a limit.
//
// Candidates are tried with few limits, each about half of the one before (TryCandidate.h). What is
// between two of them may fit, too. Of eight ranks, for which 15 are too many,
//
//   8 of 8, 4, 2, 1 fits    then 11 fits, 13 doesn't, 12 does: chosen
//
// Where memory isn't short, twice as many as usual are tried. They may hide slow messages.
#include "Strategies.h"

#include "dtc/Schedule/Descriptor.h"

#include <algorithm>

namespace dtc::plan {

namespace {

class LimitSearch {
public:
  LimitSearch(SearchState &state, const Estimate &known)
      : state(state), known(known), ranks(known.degrees.pp),
        usual(std::min(describe(known.degrees.schedule).usuallyKept(ranks),
                       known.degrees.numMicrobatches)) {}

  void run() {
    // More memory is taken for a gain that is more than an estimate's rounding.
    constexpr double least = 0.995;
    const int64_t kept = known.degrees.kept, all = known.degrees.numMicrobatches;
    if (kept < usual)
      between(kept, std::min(kept < ranks ? 2 * kept : usual, usual));
    else if (usual < all)
      isFaster(std::min(2 * usual, all), least);
  }

private:
  bool isFaster(int64_t kept, double share) {
    Degrees degrees = known.degrees;
    degrees.kept = kept;
    return keepIfFaster(state, known, degrees, share * beatsBest(state));
  }
  /// The largest number that gains something, from one that fits to one that doesn't gain.
  void between(int64_t fits, int64_t tooMany) {
    while (tooMany - fits > 1) {
      int64_t middle = fits + (tooMany - fits) / 2;
      (isFaster(middle, 1) ? fits : tooMany) = middle;
    }
  }

  SearchState &state;
  const Estimate &known;
  const int64_t ranks, usual;
};

} // namespace

void searchKept(SearchState &state, const SearchRound &) {
  std::vector<Estimate> best;
  for (const Estimate *estimate : bestRunnersUp(state))
    if (state.choosesKept(estimate->degrees))
      best.push_back(*estimate);
  for (const Estimate &known : best)
    LimitSearch(state, known).run();
}

} // namespace dtc::plan
