// What comes closest to fitting: every candidate with all that saves memory.
#include "Strategies.h"

#include <algorithm>
#include <limits>
#include <map>

namespace dtc::plan {

/// Those with the smallest microbatches of each mesh and schedule: larger ones hold more. Those
/// come first that split the model most: what they are short of spares the others a simulation.
static std::vector<Candidate> smallestFirst(std::vector<Candidate> candidates) {
  auto anyMicrobatch = [](Degrees degrees) {
    degrees.microBatch = degrees.numMicrobatches = 1;
    return degrees;
  };
  std::map<Degrees, int64_t> least;
  for (const Candidate &candidate : candidates) {
    const int64_t samples = candidate.degrees.microBatch;
    int64_t &known = least.try_emplace(anyMicrobatch(candidate.degrees), samples).first->second;
    known = std::min(known, samples);
  }
  std::erase_if(candidates, [&](const Candidate &candidate) {
    return candidate.degrees.microBatch > least.at(anyMicrobatch(candidate.degrees));
  });
  auto split = [](const Candidate &candidate) {
    const Degrees &degrees = candidate.degrees;
    return double(degrees.tp * degrees.pp * degrees.cp) / double(degrees.microBatch);
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const Candidate &a, const Candidate &b) { return split(a) > split(b); });
  return candidates;
}

/// Until one is short of no more than this share of its memory.
static void searchAnyMemory(SearchState &state, Offload offload, double enough) {
  constexpr double noLimit = std::numeric_limits<double>::infinity();
  double leastShort = noLimit;
  std::vector<ShardVariant> variants = plainVariants(state);
  variants.push_back(smallVariants(state).back());
  for (const Candidate &candidate : smallestFirst(state.candidates)) {
    Degrees degrees = candidate.degrees;
    degrees.zero = state.zeroLevels(degrees).back();
    degrees.recompute = state.recomputations().back();
    degrees.offload = offload;
    for (const ShardVariant &variant : variants) {
      Estimate closest;
      if (state.estimate(degrees, variant,
                         {.limit = noLimit, .anyMemory = true, .mostShort = leastShort},
                         closest) != Estimator::Outcome::Found)
        continue;
      leastShort = std::min(leastShort, closest.shortBytes());
      bool isEnough = leastShort <= enough * closest.capacity;
      state.keep(std::move(closest));
      if (isEnough)
        return;
    }
  }
}

static void searchWithin(SearchState &state, double enough) {
  const bool mayOffload = state.mayOffload();
  searchAnyMemory(
      state, state.spec.offload.value_or(mayOffload ? Offload::Optimizer : Offload::None), enough);
  std::vector<Estimate> &found = state.found;
  // Where hosts are short, devices may lack less.
  if (mayOffload && std::all_of(found.begin(), found.end(), [](const Estimate &estimate) {
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

bool isOutOfReach(SearchState &state) {
  // More than shardings at other prices of memory and roundings of the estimate differ by.
  constexpr double farShort = 0.05;
  state.found.clear();
  searchWithin(state, farShort);
  return !state.found.empty() &&
         state.found.front().shortBytes() > farShort * state.found.front().capacity;
}

} // namespace dtc::plan
