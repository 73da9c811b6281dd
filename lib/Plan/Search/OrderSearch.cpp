// The search of orders of the axes on the devices (Orders.h), once the best plans of the
// default order are known.
#include "PlanSearch.h"

#include <algorithm>

namespace dtc::plan {

/// Plans that are pinned in full, and those that are compiled, have the default order.
bool PlanSearch::searchesOrders() const {
  return !spec.order && !options.executable && !isPinned(spec);
}

const std::vector<AxisOrder> &PlanSearch::ordersOf(const Degrees &degrees) {
  auto [it, isNew] = orders.try_emplace(
      {degrees.tp, degrees.cp, degrees.ep, degrees.dp, degrees.pp});
  if (isNew)
    it->second = distinctOrders(degrees, cluster, nearPays());
  return it->second;
}

bool PlanSearch::nearPays() {
  if (!near)
    near = nearIsFaster(library.getModel(), options.devices);
  return *near;
}

/// Found: an order may be worth a look. That what doesn't fit, sharded for neighbouring ranks,
/// doesn't fit in any order is a guess: shardings for slower links may hold less. It is the
/// orders that are left out, never what is known of the default one.
Estimator::Outcome PlanSearch::tryOrders(const Degrees &degrees, const ShardVariant &variant,
                                         const EstimateOptions &asked) {
  if (!mustBeat || !nearPays())
    return Estimator::Outcome::Found;
  Degrees any = degrees;
  any.order = kDefaultOrder;
  auto [it, isNew] = ofOrders.try_emplace({any, variant});
  auto &[outcome, limit] = it->second;
  bool holds = outcome == Estimator::Outcome::Found ? asked.limit >= limit : asked.limit <= limit;
  if (isNew || !holds) {
    ++estimates;
    outcome = estimator.tryOrders(any, variant, asked, refusal);
    limit = asked.limit;
  }
  return outcome;
}

/// What the search of an estimate began with.
Degrees PlanSearch::familyOf(const Estimate &estimate) const {
  const Degrees plain;
  Degrees family = estimate.degrees;
  family.zero = plain.zero;
  family.zeroGroup = spec.zeroGroup.value_or(0);
  family.zeroBlocks = plain.zeroBlocks;
  family.recompute = plain.recompute;
  family.recomputeBlocks = plain.recomputeBlocks;
  return family;
}

/// Seconds a sample, of the slowest rival as it is by now; the default order has to be beaten by
/// more than nothing.
double PlanSearch::secondsToBeat() const {
  constexpr double least = 0.9995;
  auto toBeat = [](const Estimate &fastest) {
    return fastest.perSample() * (fastest.degrees.order == kDefaultOrder ? least : 1);
  };
  double slowest = 0;
  for (const Degrees &rival : rivals)
    slowest = std::max(slowest,
                       toBeat(*std::find_if(found.begin(), found.end(), [&](const Estimate &each) {
                         return kindOf(each.degrees) == rival;
                       })));
  return rivals.empty() ? toBeat(found.front()) : slowest;
}

/// Orders other than the default.
void PlanSearch::searchOrders(Degrees family, Variants variants) {
  ShardVariant first = plainVariants().front();
  mustBeat = secondsToBeat();
  for (AxisOrder order : ordersOf(family)) {
    family.order = order;
    if (order != kDefaultOrder && effort() < mostEffort &&
        estimator.lowerBound(family, first, refusal) <= limit(family))
      searchFamily(family, variants);
  }
  mustBeat.reset();
}

/// Once the best of the default order is known: of what would be told, and of all
/// whose floor is below it.
void PlanSearch::searchAllOrders(Variants variants, Offload offload) {
  if (found.empty() || !searchesOrders())
    return;
  // A part of what the default order has taken, but what small searches need.
  constexpr double share = 0.15;
  constexpr int64_t least = 400;
  mostEffort = effort() + std::max(least, int64_t(share * double(effort())));
  std::vector<std::pair<Degrees, std::vector<Degrees>>> told; // families, and their kinds
  auto ofFamily = [&](const Degrees &family) {
    return std::find_if(told.begin(), told.end(),
                        [&](const auto &other) { return other.first == family; });
  };
  for (const Estimate *estimate : bestKinds()) {
    auto known = ofFamily(familyOf(*estimate));
    if (known == told.end())
      known = told.insert(known, {familyOf(*estimate), {}});
    known->second.push_back(kindOf(estimate->degrees));
  }
  for (const auto &[family, kinds] : told) {
    rivals = kinds;
    searchOrders(family, variants);
  }
  rivals.clear();
  ShardVariant first = plainVariants().front();
  for (const Family &family : families) {
    if (effort() >= mostEffort)
      return;
    Degrees degrees = family.degrees;
    degrees.offload = offload;
    if (ofFamily(degrees) != told.end())
      continue;
    double best = found.front().perSample();
    if (ordersOf(degrees).size() > 1 &&
        (!nearPays() || estimator.lowerBoundOfOrders(degrees, first, refusal) <=
                      best * double(degrees.samples())))
      searchOrders(degrees, variants);
  }
}

} // namespace dtc::plan
