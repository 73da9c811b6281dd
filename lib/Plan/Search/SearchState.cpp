#include "SearchState.h"

#include "dtc/Plan/Plan/Trains.h"

#include <algorithm>
#include <limits>

namespace dtc::plan {

bool SearchState::trains() const { return plan::trains(problem); }

bool SearchState::mayOffload() const {
  return !spec.offload && isAble(options.abilities.offload, Offload::Optimizer) &&
         cluster.device.hasOwnMemory() && !isPinned(spec) && trains();
}

std::vector<int> SearchState::zeroLevels(const Degrees &degrees) const {
  if (spec.zero)
    return {*spec.zero};
  int64_t ranks = degrees.dp;
  for (const StageGroup &group : degrees.groups)
    ranks = std::max(ranks, group.dp);
  if (degrees.zeroGroup > 0)
    ranks = std::min(ranks, degrees.zeroGroup);
  if (!trains() || ranks * degrees.ep * degrees.cp == 1)
    return {0};
  std::vector<int> levels = {0, 1, 2, 3};
  std::erase_if(levels, [&](int zero) { return !isAble(options.abilities.zero, zero); });
  return levels;
}

std::vector<Recompute> SearchState::recomputations() const {
  if (spec.recompute)
    return {*spec.recompute};
  if (!trains() || shardings.getBlocks().empty())
    return {Recompute::None};
  std::vector<Recompute> ways = {Recompute::Selective, Recompute::Full};
  if (!shardings.keepsInsideOps()) // a fused attention has nothing to select
    ways.erase(ways.begin());
  if (!options.abilities.mixesBlocks) // as few blocks as will do may be none
    ways.insert(ways.begin(), Recompute::None);
  std::erase_if(ways, [&](Recompute way) { return !isAble(options.abilities.recompute, way); });
  return ways;
}

bool SearchState::recomputesSome(const Degrees &degrees) const {
  return options.abilities.mixesBlocks && !spec.recompute && degrees.recompute != Recompute::None;
}

Estimator::Outcome SearchState::estimate(const Degrees &degrees, const ShardVariant &variant,
                                         const EstimateOptions &asked, Estimate &estimated) {
  if (confirms && !asked.anyMemory)
    return estimateConfirmed(degrees, variant, asked, estimated);
  const Estimator::Outcome outcome = estimateOnce(degrees, variant, asked, estimated);
  return outcome == Estimator::Outcome::TooLarge && fitsAsStages(degrees, variant, asked, estimated)
             ? Estimator::Outcome::Found
             : outcome;
}

Estimator::Outcome SearchState::estimateOnce(const Degrees &degrees, const ShardVariant &variant,
                                             const EstimateOptions &asked, Estimate &estimated) {
  ++estimates;
  return estimator.estimate(degrees, variant, asked, estimated, refusal);
}

bool SearchState::mayFitAtLeast(const Degrees &degrees, const ShardVariant &variant, double share) {
  ++estimates;
  return estimator.mayFit(degrees, variant, /*someBlocks=*/false, share);
}

void SearchState::keep(Estimate estimate) {
  auto after = std::upper_bound(
      found.begin(), found.end(), estimate,
      [](const Estimate &a, const Estimate &b) { return a.perSample() < b.perSample(); });
  found.insert(after, std::move(estimate));
}

//===-- limits ------------------------------------------------------------===//

Degrees runnerUpOf(Degrees degrees) {
  const Degrees plain;
  degrees.schedule = plain.schedule;
  degrees.chunks = plain.chunks;
  degrees.kept = plain.kept;
  degrees.sp = plain.sp;
  degrees.regather = plain.regather;
  degrees.zeroGroup = plain.zeroGroup;
  degrees.zeroBlocks = plain.zeroBlocks;
  degrees.recomputeBlocks = plain.recomputeBlocks;
  for (StageGroup &group : degrees.groups)
    group.sp = false;
  degrees.order = plain.order;
  return degrees;
}

std::vector<const Estimate *> bestRunnersUp(const SearchState &state) {
  std::vector<const Estimate *> result;
  std::vector<Degrees> known;
  for (const Estimate &estimate : state.found) {
    Degrees runnerUp = runnerUpOf(estimate.degrees);
    if (std::find(known.begin(), known.end(), runnerUp) != known.end())
      continue;
    known.push_back(runnerUp);
    result.push_back(&estimate);
    if (result.size() > kRunnersUp)
      break;
  }
  return result;
}

double worthTelling(const SearchState &state) {
  constexpr double slowest = 1.1; // times the best
  if (state.found.empty())
    return std::numeric_limits<double>::infinity();
  double limit = slowest * state.found.front().perSample();
  std::vector<const Estimate *> best = bestRunnersUp(state);
  return best.size() > kRunnersUp ? std::min(limit, best.back()->perSample()) : limit;
}

double beatsBest(const SearchState &state) {
  return state.found.empty() ? std::numeric_limits<double>::infinity()
                             : state.found.front().perSample();
}

//===-- shardings ---------------------------------------------------------===//

double evenPrice(const SearchState &state) {
  double step = state.candidates.empty()
                    ? 0
                    : state.candidates.front().floor * double(state.problem.globalBatch());
  return std::max(step, 1e-9) / state.shardings.getModel().memoryPerRank();
}

std::vector<ShardVariant> plainVariants(std::optional<bool> sp, double evenPrice) {
  constexpr double share = 0.05; // of a step, for all of the memory
  ShardVariant plain{sp, ShardVariant{}.secondsPerByte};
  if (sp)
    return {plain, {sp, evenPrice}};
  return {plain, {true, share * evenPrice}, {std::nullopt, evenPrice}};
}

std::vector<ShardVariant> plainVariants(const SearchState &state) {
  return plainVariants(state.spec.sp, evenPrice(state));
}

std::vector<ShardVariant> smallVariants(const SearchState &state) {
  std::vector<ShardVariant> result;
  double times = 0.01;
  while (times < 2 * kDearest) {
    result.push_back({state.spec.sp, times * evenPrice(state)});
    times *= 4;
  }
  return result;
}

} // namespace dtc::plan
