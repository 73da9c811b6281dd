// What comes closest to fitting: every candidate with all that saves memory.
#include "Strategies.h"

#include "dtc/Plan/Shard/ContextExchange.h"

#include <algorithm>
#include <limits>

namespace dtc::plan {

/// More than shardings at other prices of memory and roundings of the estimate differ by: a share
/// of a rank's memory.
static constexpr double kFarShort = 0.05;

static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// What is alike for all microbatches of a mesh and schedule.
static Degrees anyMicrobatch(Degrees degrees) {
  degrees.microBatch = degrees.numMicrobatches = 1;
  for (StageGroup &group : degrees.groups)
    group.microBatch = 1;
  return degrees;
}

/// With the smallest microbatch of the same mesh and schedule: larger ones hold more.
static const Degrees &smallestOf(SearchState &state, const Degrees &degrees) {
  if (state.smallest.empty())
    for (const Candidate &candidate : state.candidates) {
      Degrees &known =
          state.smallest.try_emplace(anyMicrobatch(candidate.degrees), candidate.degrees)
              .first->second;
      if (candidate.degrees.microBatch < known.microBatch)
        known = candidate.degrees;
    }
  return state.smallest.at(anyMicrobatch(degrees));
}

/// The smallest microbatches of all meshes and schedules. Those come first that split the model
/// most: what they are short of spares the others a simulation.
static std::vector<Candidate> smallestFirst(SearchState &state) {
  std::vector<Candidate> candidates = state.candidates;
  std::erase_if(candidates, [&](const Candidate &candidate) {
    return candidate.degrees.microBatch > smallestOf(state, candidate.degrees).microBatch;
  });
  auto split = [](const Candidate &candidate) {
    const Degrees &degrees = candidate.degrees;
    return double(degrees.tp * degrees.pp * degrees.cp) / double(degrees.microBatch);
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const Candidate &a, const Candidate &b) { return split(a) > split(b); });
  return candidates;
}

Degrees withLeast(const SearchState &state, Degrees degrees, Offload offload) {
  degrees.zero = state.zeroLevels(degrees).back();
  degrees.recompute = state.recomputations().back();
  degrees.offload = offload;
  if (state.choosesKept(degrees))
    degrees.kept = 1;
  // What is computed again is gathered again in any case.
  if (degrees.recompute != Recompute::Full && mayRegather(state, degrees))
    degrees.regather = true;
  if (degrees.cp > 1 && choosesContextExchange(state) &&
      whyNoExchange(state.problem, state.facts, ContextExchange::Ring, degrees.cp).empty())
    degrees.contextExchange = ContextExchange::Ring;
  return degrees;
}

/// The sharding that holds least, and those that a search begins with.
static std::vector<ShardVariant> closestVariants(const SearchState &state) {
  std::vector<ShardVariant> variants = plainVariants(state);
  variants.push_back(smallVariants(state).back());
  return variants;
}

/// The estimates of a candidate's shardings that lack no more than another plan does. Where the
/// sharding that holds least lacks far more, none of the others is solved.
static std::vector<Estimate> closestOf(SearchState &state, const Degrees &degrees,
                                       const std::vector<ShardVariant> &variants,
                                       double leastShort) {
  auto within = [&](const ShardVariant &variant, double mostShort, Estimate &closest) {
    return state.estimate(degrees, variant,
                          {.limit = kNoLimit, .anyMemory = true, .mostShort = mostShort},
                          closest) == Estimator::Outcome::Found;
  };
  const double reach = kFarShort * state.shardings.getModel().memoryPerRank();
  std::vector<Estimate> found;
  Estimate least, closest;
  if (!within(variants.back(), leastShort + reach, least))
    return found;
  leastShort = std::min(leastShort, least.shortBytes());
  for (size_t i = 0; i + 1 < variants.size(); ++i)
    if (within(variants[i], leastShort, closest)) {
      leastShort = std::min(leastShort, closest.shortBytes());
      found.push_back(std::move(closest));
    }
  found.push_back(std::move(least));
  return found;
}

/// Until one is short of no more than this share of its memory.
static void searchAnyMemory(SearchState &state, Offload offload, double enough) {
  double leastShort = kNoLimit;
  const std::vector<ShardVariant> variants = closestVariants(state);
  for (const Candidate &candidate : smallestFirst(state)) {
    const Degrees degrees = withLeast(state, candidate.degrees, offload);
    bool isEnough = false;
    for (Estimate &closest : closestOf(state, degrees, variants, leastShort)) {
      leastShort = std::min(leastShort, closest.shortBytes());
      isEnough = isEnough || leastShort <= enough * closest.capacity;
      state.keep(std::move(closest));
    }
    if (isEnough)
      return;
  }
}

/// Offloaded where that may be.
static Offload leastOffload(const SearchState &state) {
  return state.spec.offload.value_or(state.mayOffload() ? Offload::Optimizer : Offload::None);
}

static void searchWithin(SearchState &state, double enough) {
  searchAnyMemory(state, leastOffload(state), enough);
  std::vector<Estimate> &found = state.found;
  // Where hosts are short, devices may lack less.
  if (state.mayOffload() && std::all_of(found.begin(), found.end(), [](const Estimate &estimate) {
        return estimate.host.shortBytes() > 0;
      }))
    searchAnyMemory(state, Offload::None, enough);
  std::stable_sort(found.begin(), found.end(), [](const Estimate &a, const Estimate &b) {
    return a.shortBytes() < b.shortBytes();
  });
}

void searchClosest(SearchState &state) {
  searchWithin(state, -std::numeric_limits<double>::infinity());
}

/// With any of these shardings. Chunks of a rank share its memory, so that only the whole schedule
/// tells whether they fit.
static bool isFarShort(SearchState &state, const Degrees &degrees,
                       const std::vector<ShardVariant> &variants) {
  const double reach = kFarShort * state.shardings.getModel().memoryPerRank();
  return std::none_of(variants.begin(), variants.end(), [&](const ShardVariant &variant) {
    if (degrees.chunks == 1)
      return state.mayFitAtLeast(degrees, variant, 1 + kFarShort);
    Estimate closest;
    return state.estimate(degrees, variant,
                          {.limit = kNoLimit, .anyMemory = true, .mostShort = reach},
                          closest) == Estimator::Outcome::Found;
  });
}

/// Whether the plan that holds least is confirmed to fit. It is kept, if it is worth telling.
static bool isConfirmed(SearchState &state, const Degrees &degrees,
                        const std::vector<ShardVariant> &variants) {
  std::optional<Estimate> least;
  for (const ShardVariant &variant : variants)
    if (Estimate closest; state.estimate(degrees, variant, {.limit = kNoLimit, .anyMemory = true},
                                         closest) == Estimator::Outcome::Found &&
                          (!least || closest.shortBytes() < least->shortBytes()))
      least = std::move(closest);
  if (!least || !state.confirm(*least, /*holdsLeast=*/true))
    return false;
  if (least->perSample() <= worthTelling(state))
    state.keep(std::move(*least));
  return true;
}

bool isOutOfReach(SearchState &state, const Degrees &candidate, Offload offload) {
  Degrees least = withLeast(state, smallestOf(state, candidate), offload);
  auto [known, isNew] = state.outOfReach.try_emplace(least, false);
  if (!isNew)
    return known->second;
  const std::vector<ShardVariant> variants = closestVariants(state);
  const std::vector<int> levels = state.zeroLevels(least);
  // What the highest level of ZeRO gathers may be more than it spares.
  const size_t first = levels.size() - std::min<size_t>(2, levels.size());
  known->second = std::all_of(levels.begin() + first, levels.end(), [&](int zero) {
    least.zero = zero;
    return isFarShort(state, least, variants) ||
           (state.confirms && !isConfirmed(state, least, variants));
  });
  return known->second;
}

bool isOutOfReach(SearchState &state) {
  // Nearly always the fastest candidate isn't.
  if (!isOutOfReach(state, state.candidates.front().degrees, leastOffload(state)))
    return false;
  searchWithin(state, kFarShort);
  if (!state.found.empty() &&
      state.found.front().shortBytes() > kFarShort * state.found.front().capacity)
    return true;
  state.found.clear();
  return false;
}

} // namespace dtc::plan
