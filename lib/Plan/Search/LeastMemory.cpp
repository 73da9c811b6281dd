#include "LeastMemory.h"

#include "Strategies.h"

#include <algorithm>
#include <limits>
#include <set>

namespace dtc::plan {

/// Those with the smallest microbatches, the ones first that split the model most. 1F1B stands for
/// all schedules of one chunk a rank, which keep no less unless they have a limit.
static std::vector<Degrees> smallest(const std::vector<Degrees> &all) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Degrees &degrees : all)
    least = std::min(least, degrees.microBatch);
  std::set<Degrees> known;
  std::vector<Degrees> result;
  for (const Degrees &degrees : all) {
    if (degrees.microBatch > least)
      continue;
    auto like1F1B = degrees;
    like1F1B.schedule = ScheduleKind::OneFOneB;
    if (degrees.chunks > 1 || known.insert(like1F1B).second)
      result.push_back(degrees);
  }
  auto split = [](const Degrees &degrees) { return degrees.tp * degrees.pp * degrees.cp; };
  std::stable_sort(result.begin(), result.end(),
                   [&](const Degrees &a, const Degrees &b) { return split(a) > split(b); });
  return result;
}

/// An answer that nothing fits is due in seconds. Advice isn't worth more work than this for all
/// questions together (LeastMemory::effort).
static constexpr int64_t kMostEffort = 12000;

static bool fits(SearchState &state, const Degrees &degrees, const ShardVariant &variant) {
  constexpr double noLimit = std::numeric_limits<double>::infinity();
  Estimate estimate;
  if (state.estimate(degrees, variant, {noLimit}, estimate) != Estimator::Outcome::Found)
    return false;
  auto plan = completePlan(state.problem, state.cluster, state.shardings, estimate,
                           MemoryDetail::WhetherItFits);
  return plan && plan->predicted.fits();
}

/// The sharding that holds least, and those that a search begins with. A rank that splits no op has
/// nothing to choose.
std::vector<ShardVariant> LeastMemory::variantsFor(const SearchState &state,
                                                   const Degrees &degrees) const {
  std::vector<ShardVariant> result = {{state.spec.sp, kDearest * price}};
  if (!degrees.groups.empty() || degrees.tp * degrees.cp * degrees.ep > 1)
    for (const ShardVariant &plain : plainVariants(state.spec.sp, price))
      result.push_back(plain);
  return result;
}

bool LeastMemory::anyFits(SearchState &state, const std::vector<Degrees> &list,
                          Offload offload) const {
  for (const Degrees &listed : list) {
    if (effort() + state.estimates > kMostEffort)
      return false;
    const Degrees degrees = withLeast(state, listed, offload);
    const std::vector<ShardVariant> variants = variantsFor(state, degrees);
    if (std::any_of(variants.begin(), variants.end(), [&](const ShardVariant &variant) {
          return plan::fits(state, degrees, variant);
        }))
      return true;
  }
  return false;
}

bool LeastMemory::fits(const SearchOptions &options) {
  Result<Spec> spec = fill(withFixed(options.abilities, options.spec), options.devices);
  if (!spec)
    return false;
  SearchState state(problem, cluster, options, *spec, shardings);
  shardings = state.kept;
  if (!canHoldModel(state))
    return false;
  const std::vector<Degrees> list = smallest(listCandidates(state));
  // The price of memory follows from one floor, of what is split least. All floors would be most
  // of the work.
  for (size_t i = list.size(); i > 0 && price == 0; --i) {
    addCandidates(state, {list[i - 1]});
    price = state.candidates.empty() ? 0 : evenPrice(state);
  }
  const bool found =
      price > 0 && (anyFits(state, list, state.spec.offload.value_or(Offload::None)) ||
                    (state.mayOffload() && anyFits(state, list, Offload::Optimizer)));
  estimates += state.estimates;
  return found;
}

int64_t LeastMemory::effort() const {
  return estimates + (shardings ? 10 * shardings->solves() : 0);
}

} // namespace dtc::plan
