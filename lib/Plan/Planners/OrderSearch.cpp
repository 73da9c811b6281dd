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

/// Found: an order may be worth a look.
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

/// Orders other than the default, which has to be beaten by more than nothing.
void PlanSearch::searchOrders(Degrees family, Variants variants, double beat) {
  constexpr double least = 0.9995;
  ShardVariant first = plainVariants().front();
  mustBeat = least * beat;
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
  std::vector<std::pair<Degrees, double>> told;
  for (const Estimate *estimate : bestKinds()) {
    Degrees family = estimate->degrees;
    family.zeroGroup = spec.zeroGroup.value_or(0);
    family.recomputeBlocks = 0;
    family.zeroBlocks = 0;
    told.emplace_back(family, estimate->perSample());
  }
  for (const auto &[family, seconds] : told)
    searchOrders(family, variants, seconds);
  ShardVariant first = plainVariants().front();
  for (const Family &family : families) {
    if (effort() >= mostEffort)
      return;
    Degrees degrees = family.degrees;
    degrees.offload = offload;
    double best = found.front().perSample();
    if (ordersOf(degrees).size() > 1 &&
        (!nearPays() || estimator.lowerBoundOfOrders(degrees, first, refusal) <=
                      best * double(degrees.samples())))
      searchOrders(degrees, variants, best);
  }
}

} // namespace dtc::plan
