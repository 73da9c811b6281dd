#include "LeastMemory.h"

#include "Strategies.h"

#include <algorithm>
#include <limits>

namespace dtc::plan {

/// Those with the smallest microbatches.
static std::vector<Candidate> smallestMicrobatches(const std::vector<Candidate> &all) {
  auto samples = [](const Candidate &candidate) { return candidate.degrees.microBatch; };
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Candidate &candidate : all)
    least = std::min(least, samples(candidate));
  std::vector<Candidate> result;
  std::copy_if(all.begin(), all.end(), std::back_inserter(result),
               [&](const Candidate &candidate) { return samples(candidate) == least; });
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

static bool anyFits(SearchState &state, Offload offload) {
  const std::vector<ShardVariant> shardings = {smallVariants(state).back(),
                                               plainVariants(state).back(),
                                               plainVariants(state).front()};
  for (const Candidate &candidate : smallestMicrobatches(state.candidates)) {
    Degrees degrees = candidate.degrees;
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

bool fitsWithLeastMemory(const Problem &problem, const Cluster &cluster,
                         const SearchOptions &options) {
  Result<Spec> spec = fill(withFixed(options.abilities, options.spec), options.devices);
  if (!spec)
    return false;
  SearchState state(problem, cluster, options, *spec);
  if (!canHoldModel(state))
    return false;
  addCandidates(state);
  return anyFits(state, state.spec.offload.value_or(Offload::None)) ||
         (state.mayOffload() && anyFits(state, Offload::Optimizer));
}

} // namespace dtc::plan
