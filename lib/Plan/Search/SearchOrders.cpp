// Other orders of the axes on the devices (Orders.h), once the best plans of the default order
// are known: of the runners-up, and of all candidates whose floor is below the best.
//
// Another order joins other ranks below one switch. It has to beat the fastest plan of the default
// order by 0.05 %. The effort is a part of what the default order took; better orders of the
// least promising candidates may be missed.
#include "Strategies.h"

#include <algorithm>

namespace dtc::plan {

using Outcome = Estimator::Outcome;

namespace {

class OrderSearch {
public:
  OrderSearch(SearchState &state, const SearchRound &round) : state(state), known(state.orders) {
    attempt = attemptWith(round.shardings);
    attempt.limit = [this](const SearchState &) { return secondsToBeat(); };
    attempt.precheck = [this](SearchState &, const Degrees &degrees, const ShardVariant &variant,
                              const EstimateOptions &asked) {
      return anyOrder(degrees, variant, asked);
    };
    // A part of what the default order has taken, but what small searches need.
    constexpr double share = 0.15;
    constexpr int64_t least = 400;
    mostEffort = state.effort() + std::max(least, int64_t(share * double(state.effort())));
    first = plainVariants(state).front();
  }

  void searchRunnersUp();
  void searchCandidates(Offload offload);

private:
  using RunnersUp = std::vector<std::pair<Degrees, std::vector<Degrees>>>;

  bool nearPays();
  const std::vector<AxisOrder> &ordersOf(const Degrees &degrees);
  Degrees candidateOf(const Estimate &estimate) const;
  RunnersUp::iterator toldOf(const Degrees &candidate);
  double secondsToBeat() const;
  Outcome anyOrder(const Degrees &degrees, const ShardVariant &variant,
                   const EstimateOptions &asked);
  void searchOrdersOf(Degrees candidate);

  SearchState &state;
  KnownOrders &known;
  Attempt attempt;
  ShardVariant first;
  int64_t mostEffort = 0;
  RunnersUp told; ///< candidates, and what each has among the runners-up
  /// Runners-up that other orders are searched for; none: for the best of all.
  std::vector<Degrees> rivals;
};

} // namespace

const std::vector<AxisOrder> &OrderSearch::ordersOf(const Degrees &degrees) {
  auto [it, isNew] = known.distinct.try_emplace(
      {degrees.tp, degrees.cp, degrees.ep, degrees.dp, degrees.pp});
  if (isNew)
    it->second = distinctOrders(degrees, state.cluster, nearPays());
  return it->second;
}

bool OrderSearch::nearPays() {
  if (!known.nearIsFaster)
    known.nearIsFaster = nearIsFaster(state.shardings.getModel(), state.options.devices);
  return *known.nearIsFaster;
}

/// Found: an order may be worth a look. That what doesn't fit, sharded for neighbouring ranks,
/// doesn't fit in any order is a guess: shardings for slower links may hold less. It is the
/// orders that are left out, never what is known of the default one.
Outcome OrderSearch::anyOrder(const Degrees &degrees, const ShardVariant &variant,
                              const EstimateOptions &asked) {
  if (!nearPays())
    return Outcome::Found;
  Degrees any = degrees;
  any.order = kDefaultOrder;
  auto [it, isNew] = known.outcomes.try_emplace({any, variant});
  auto &[outcome, limit] = it->second;
  bool holds = outcome == Outcome::Found ? asked.limit >= limit : asked.limit <= limit;
  if (isNew || !holds) {
    ++state.estimates;
    outcome = state.estimator.tryOrders(any, variant, asked, state.refusal);
    limit = asked.limit;
  }
  return outcome;
}

/// What the search of an estimate began with.
Degrees OrderSearch::candidateOf(const Estimate &estimate) const {
  const Degrees plain;
  Degrees candidate = estimate.degrees;
  candidate.zero = plain.zero;
  candidate.zeroGroup = state.spec.zeroGroup.value_or(0);
  candidate.zeroBlocks = plain.zeroBlocks;
  candidate.recompute = plain.recompute;
  candidate.recomputeBlocks = plain.recomputeBlocks;
  return candidate;
}

/// Seconds a sample, of the slowest rival as it is by now; the default order has to be beaten by
/// more than nothing.
double OrderSearch::secondsToBeat() const {
  constexpr double least = 0.9995;
  auto toBeat = [](const Estimate &fastest) {
    return fastest.perSample() * (fastest.degrees.order == kDefaultOrder ? least : 1);
  };
  const std::vector<Estimate> &found = state.found;
  double slowest = 0;
  for (const Degrees &rival : rivals)
    slowest = std::max(slowest,
                       toBeat(*std::find_if(found.begin(), found.end(), [&](const Estimate &each) {
                         return runnerUpOf(each.degrees) == rival;
                       })));
  return rivals.empty() ? toBeat(found.front()) : slowest;
}

void OrderSearch::searchOrdersOf(Degrees candidate) {
  for (AxisOrder order : ordersOf(candidate)) {
    candidate.order = order;
    if (order != kDefaultOrder && state.effort() < mostEffort &&
        state.estimator.lowerBound(candidate, first, state.refusal) <=
            secondsToBeat() * double(candidate.samples()))
      tryCandidate(state, candidate, attempt);
  }
}

OrderSearch::RunnersUp::iterator OrderSearch::toldOf(const Degrees &candidate) {
  return std::find_if(told.begin(), told.end(),
                      [&](const auto &other) { return other.first == candidate; });
}

void OrderSearch::searchRunnersUp() {
  for (const Estimate *estimate : bestRunnersUp(state)) {
    auto same = toldOf(candidateOf(*estimate));
    if (same == told.end())
      same = told.insert(same, {candidateOf(*estimate), {}});
    same->second.push_back(runnerUpOf(estimate->degrees));
  }
  for (const auto &[candidate, runnersUp] : told) {
    rivals = runnersUp;
    searchOrdersOf(candidate);
  }
  rivals.clear();
}

void OrderSearch::searchCandidates(Offload offload) {
  for (const Candidate &candidate : state.candidates) {
    if (state.effort() >= mostEffort)
      return;
    Degrees degrees = candidate.degrees;
    degrees.offload = offload;
    if (toldOf(degrees) != told.end())
      continue;
    double best = beatsBest(state);
    if (ordersOf(degrees).size() > 1 &&
        (!nearPays() ||
         state.estimator.lowerBoundOfOrders(degrees, first, state.refusal) <=
             best * double(degrees.samples())))
      searchOrdersOf(degrees);
  }
}

void searchOrders(SearchState &state, const SearchRound &round) {
  // Plans that are pinned in full, and those that are compiled, have the default order.
  if (state.found.empty() || state.spec.order || state.options.executable || isPinned(state.spec))
    return;
  OrderSearch search(state, round);
  Offload offload = state.found.front().degrees.offload;
  search.searchRunnersUp();
  search.searchCandidates(offload);
}

} // namespace dtc::plan
