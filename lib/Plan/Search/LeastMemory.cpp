#include "LeastMemory.h"

#include "Strategies.h"

#include <algorithm>
#include <limits>

namespace dtc::plan {

/// Those with the smallest microbatches, the ones first that split the model most.
static std::vector<Degrees> smallest(const std::vector<Degrees> &all) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Degrees &degrees : all)
    least = std::min(least, degrees.microBatch);
  std::vector<Degrees> result;
  std::copy_if(all.begin(), all.end(), std::back_inserter(result),
               [&](const Degrees &degrees) { return degrees.microBatch == least; });
  auto split = [](const Degrees &degrees) { return degrees.tp * degrees.pp * degrees.cp; };
  std::stable_sort(result.begin(), result.end(),
                   [&](const Degrees &a, const Degrees &b) { return split(a) > split(b); });
  return result;
}

static bool fits(SearchState &state, const Degrees &degrees, const ShardVariant &variant) {
  constexpr double noLimit = std::numeric_limits<double>::infinity();
  Estimate estimate;
  if (state.estimate(degrees, variant, {noLimit}, estimate) != Estimator::Outcome::Found)
    return false;
  auto plan = completePlan(state.problem, state.cluster, state.shardings, estimate);
  return plan && plan->predicted.fits();
}

static bool anyFits(SearchState &state, const std::vector<Degrees> &list, Offload offload) {
  const std::vector<ShardVariant> shardings = {smallVariants(state).back(),
                                               plainVariants(state).back(),
                                               plainVariants(state).front()};
  for (Degrees degrees : list) {
    degrees.zero = state.zeroLevels(degrees).back();
    degrees.recompute = state.recomputations().back();
    degrees.offload = offload;
    if (std::any_of(shardings.begin(), shardings.end(), [&](const ShardVariant &variant) {
          return fits(state, degrees, variant);
        }))
      return true;
  }
  return false;
}

bool fitsWithLeastMemory(SearchState &state) {
  if (!canHoldModel(state))
    return false;
  const std::vector<Degrees> list = smallest(listCandidates(state));
  // Prices of memory follow from one floor, of what is split least. All floors would be most of the
  // work.
  for (size_t i = list.size(); i > 0 && state.candidates.empty(); --i)
    addCandidates(state, {list[i - 1]});
  if (state.candidates.empty())
    return false;
  return anyFits(state, list, state.spec.offload.value_or(Offload::None)) ||
         (state.mayOffload() && anyFits(state, list, Offload::Optimizer));
}

bool fitsWithLeastMemory(const Problem &problem, const Cluster &cluster,
                         const SearchOptions &options) {
  Result<Spec> spec = fill(withFixed(options.abilities, options.spec), options.devices);
  if (!spec)
    return false;
  SearchState state(problem, cluster, options, *spec);
  return fitsWithLeastMemory(state);
}

} // namespace dtc::plan
