// What comes closest to fitting: every candidate with all that saves memory.
#include "Strategies.h"

#include <algorithm>
#include <limits>

namespace dtc::plan {

static void searchAnyMemory(SearchState &state, Offload offload) {
  constexpr double noLimit = std::numeric_limits<double>::infinity();
  std::vector<ShardVariant> variants = plainVariants(state);
  variants.push_back(smallVariants(state).back());
  for (const Candidate &candidate : state.candidates) {
    Degrees degrees = candidate.degrees;
    degrees.zero = state.zeroLevels(degrees).back();
    degrees.recompute = state.recomputations().back();
    degrees.offload = offload;
    for (const ShardVariant &variant : variants) {
      Estimate closest;
      if (state.estimate(degrees, variant, {noLimit, true}, closest) == Estimator::Outcome::Found)
        state.keep(std::move(closest));
    }
  }
}

void searchClosest(SearchState &state) {
  const bool mayOffload = state.mayOffload();
  searchAnyMemory(state,
                  state.spec.offload.value_or(mayOffload ? Offload::Optimizer : Offload::None));
  std::vector<Estimate> &found = state.found;
  // Where hosts are short, devices may lack less.
  if (mayOffload && std::all_of(found.begin(), found.end(), [](const Estimate &estimate) {
        return estimate.host.shortBytes() > 0;
      }))
    searchAnyMemory(state, Offload::None);
  std::stable_sort(found.begin(), found.end(), [](const Estimate &a, const Estimate &b) {
    return a.shortBytes() < b.shortBytes();
  });
}

} // namespace dtc::plan
