// What ranks of cp exchange for attention: heads, or keys that go round, instead of gathered keys.
//
// All candidates gather keys. Where gathered keys are attention in parts (Cost/AttentionForm.h),
// they go round, if they can. Heads send less where there are enough of them, and a ring holds
// least. Solving shardings for all three would take three times as long for each candidate with
// cp. So only the fastest plan of each cp is tried with the other two, and where nothing fits,
// those candidates that hold least. What is better there is tried for all candidates of this cp.
#include "Strategies.h"

#include "dtc/Plan/Cost/AttentionForm.h"
#include "dtc/Plan/Shard/ContextExchange.h"

#include <set>

namespace dtc::plan {

namespace {

class ExchangeSearch {
public:
  ExchangeSearch(SearchState &state, const SearchRound &round)
      : state(state), offload(round.offload), attempt(attemptWith(round.shardings)) {
    attempt.limit = beatsBest;
  }

  void run() {
    if (state.found.empty())
      for (const Degrees &degrees : holdingLeast())
        tryOthers(degrees.cp, [&](ContextExchange exchange) { return fits(degrees, exchange); });
    else
      for (const Estimate &known : fastest())
        tryOthers(known.degrees.cp,
                  [&](ContextExchange exchange) { return isFaster(known, exchange); });
  }

private:
  template <typename Predicate> void tryOthers(int64_t cp, Predicate isOfUse) {
    for (ContextExchange exchange :
         {ContextExchange::Keys, ContextExchange::Heads, ContextExchange::Ring})
      if (exchange != usualExchange(state, cp) &&
          whyNoExchange(state.problem, state.facts, exchange, cp).empty() && isOfUse(exchange))
        tryAll(cp, exchange);
  }

  /// Of those worth telling, the fastest of each cp.
  std::vector<Estimate> fastest() const {
    std::vector<Estimate> result;
    std::set<int64_t> known = {1};
    for (const Estimate *estimate : bestRunnersUp(state))
      if (known.insert(estimate->degrees.cp).second)
        result.push_back(*estimate);
    return result;
  }

  /// Of each cp the one that splits the model most, with the fewest samples.
  std::vector<Degrees> holdingLeast() const {
    std::map<int64_t, Degrees> best;
    auto isSmaller = [](const Degrees &a, const Degrees &b) {
      return a.microBatch * b.tp * b.pp < b.microBatch * a.tp * a.pp;
    };
    for (const Candidate &candidate : state.candidates) {
      const Degrees &degrees = candidate.degrees;
      auto [known, isNew] = best.try_emplace(degrees.cp, degrees);
      if (!isNew && isSmaller(degrees, known->second))
        known->second = degrees;
    }
    best.erase(1);
    std::vector<Degrees> result;
    for (const auto &[cp, degrees] : best)
      result.push_back(degrees);
    return result;
  }

  bool isFaster(const Estimate &known, ContextExchange exchange) {
    Degrees degrees = known.degrees;
    degrees.contextExchange = exchange;
    return keepIfFaster(state, known, degrees, beatsBest(state));
  }

  bool fits(Degrees degrees, ContextExchange exchange) {
    degrees.contextExchange = exchange;
    degrees.offload = offload;
    tryCandidate(state, degrees, attempt);
    return !state.found.empty();
  }

  void tryAll(int64_t cp, ContextExchange exchange) {
    for (const Candidate &candidate : state.candidates) {
      if (candidate.floor > worthTelling(state))
        return;
      Degrees degrees = candidate.degrees;
      degrees.contextExchange = exchange;
      degrees.offload = offload;
      if (degrees.cp == cp)
        tryCandidate(state, degrees, attempt);
    }
  }

  SearchState &state;
  const Offload offload;
  Attempt attempt;
};

} // namespace

ContextExchange usualExchange(const SearchState &state, int64_t cp) {
  const bool goesRound =
      cp > 1 && choosesContextExchange(state) &&
      isOwnAttention(state.cluster.device, state.cluster.software) &&
      whyNoExchange(state.problem, state.facts, ContextExchange::Ring, cp).empty();
  return goesRound ? ContextExchange::Ring
                   : state.spec.contextExchange.value_or(ContextExchange::Keys);
}

bool choosesContextExchange(const SearchState &state) {
  return !state.spec.contextExchange && !isPinned(state.spec) &&
         !state.options.abilities.hasLimits();
}

void searchContextExchange(SearchState &state, const SearchRound &round) {
  if (choosesContextExchange(state))
    ExchangeSearch(state, round).run();
}

} // namespace dtc::plan
