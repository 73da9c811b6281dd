// What a search does where memory is short: layouts that hold less, storage between two levels
// of ZeRO, and what comes closest where nothing fits.
#include "PlanSearch.h"

#include "dtc/Plan/Cost/OpWork.h"

#include <algorithm>
#include <limits>
#include <set>

namespace dtc::plan {

//===-- layouts -----------------------------------------------------------===//

/// Seconds a byte at which all of a rank's memory costs as much as a step takes.
double PlanSearch::evenPrice() const {
  double step = families.empty() ? 0 : families.front().floor * double(problem.globalBatch());
  return std::max(step, 1e-9) / library.getModel().memoryPerRank();
}

/// As fast as can be; with sequence parallelism and whatever else holds less for
/// next to no time; and with no more copies than are worth their memory.
std::vector<ShardVariant> PlanSearch::plainVariants() const {
  constexpr double share = 0.05; // of a step, for all of the memory
  ShardVariant plain{spec.sp, ShardVariant{}.secondsPerByte};
  if (spec.sp)
    return {plain, {spec.sp, evenPrice()}};
  return {plain, {true, share * evenPrice()}, {std::nullopt, evenPrice()}};
}

/// Whether all devices together can hold parameters and gradients, each once.
bool PlanSearch::canHoldModel() const {
  if (!cluster.others.empty())
    return true;
  ParameterBytes all = modelBytes(problem, facts, cluster.software);
  return double(all.parameter + all.gradient) <=
         double(options.devices) * library.getModel().memoryPerRank();
}

/// No rank can hold its part of these states, however they are divided.
bool PlanSearch::holdsTooMuch(const Degrees &degrees, double states) const {
  int64_t storing = degrees.zeroGroup > 0 ? degrees.zeroGroup : degrees.dp;
  double ranks = double(degrees.pp);
  if (degrees.zero > 0)
    ranks *= double(storing * degrees.ep * degrees.cp);
  return degrees.offload == Offload::None && states > ranks * library.getModel().memoryPerRank();
}

/// Layouts that trade time for memory: a byte held costs ever more.
std::vector<ShardVariant> PlanSearch::smallVariants() const {
  std::vector<ShardVariant> result;
  for (double factor = 0.01; factor < 1e5; factor *= 4)
    result.push_back({spec.sp, factor * evenPrice()});
  return result;
}

/// All layouts of which none is faster and holds no more.
std::vector<ShardVariant> PlanSearch::frontierVariants(const Degrees &degrees) {
  std::vector<ShardVariant> result;
  const ShardingSolver::Frontier *frontier = library.frontier(degrees, spec.sp);
  for (size_t i = 0; frontier && i < frontier->shardings.size(); ++i)
    if (!holdsTooMuch(degrees, frontier->shardings[i].states))
      result.push_back({spec.sp, evenPrice(), static_cast<int32_t>(i)});
  return result;
}

std::vector<ShardVariant> PlanSearch::variantsOf(const Degrees &degrees, Variants variants) {
  switch (variants) {
  case Variants::Plain:
    return plainVariants();
  case Variants::Small:
    return smallVariants();
  case Variants::Frontier:
    return frontierVariants(degrees);
  }
  return {};
}

//===-- plans ------------------------------------------------------------===//

/// Where memory asks for more than speed alone would have, layouts that hold less may be
/// faster: those of the frontier where the graph is small, of others those of the prices,
/// where nothing fits without offload. Most promising degrees first.
void PlanSearch::searchSmaller(Offload offload, bool isLastResort) {
  if (found.empty() || !cluster.others.empty() || !spec.groups.empty() ||
      !(library.isSmall() || isLastResort))
    return;
  const int64_t most = effort() + (library.isSmall() ? 10000 : 3000);
  bestAlone = true;
  for (const Family &family : families) {
    if (family.floor > limitPerSample() || effort() >= most)
      break;
    Degrees degrees = family.degrees;
    degrees.offload = offload;
    if (family.isShort && degrees.tp * degrees.cp * degrees.ep > 1)
      searchFamily(degrees, library.isSmall() ? Variants::Frontier : Variants::Small);
  }
  bestAlone = false;
}

/// What comes closest to fitting, for the report and for pinned plans.
void PlanSearch::searchAnyMemory() {
  searchAnyMemory(spec.offload.value_or(mayOffload() ? Offload::Optimizer : Offload::None));
  // Where hosts are short, devices may lack less.
  if (mayOffload() && std::all_of(found.begin(), found.end(), [](const Estimate &estimate) {
        return estimate.host.shortBytes() > 0;
      }))
    searchAnyMemory(Offload::None);
  std::stable_sort(found.begin(), found.end(), [](const Estimate &a, const Estimate &b) {
    return a.shortBytes() < b.shortBytes();
  });
}

void PlanSearch::searchAnyMemory(Offload offload) {
  constexpr double noLimit = std::numeric_limits<double>::infinity();
  for (const Family &family : families) {
    Degrees degrees = family.degrees;
    degrees.zero = zeroLevels(degrees).back();
    degrees.recompute = recomputations().back();
    degrees.offload = offload;
    std::vector<ShardVariant> variants = plainVariants();
    variants.push_back(smallVariants().back());
    for (const ShardVariant &variant : variants) {
      Estimate closest;
      if (estimate(degrees, variant, {noLimit, true}, closest) == Estimator::Outcome::Found)
        keep(std::move(closest));
    }
  }
}

/// Plans that store some blocks by one level of ZeRO and the rest by the one below, for what
/// has been found of single levels.
void PlanSearch::searchBetweenLevels() {
  if (found.empty() || spec.zero)
    return;
  std::set<std::pair<Degrees, ShardVariant>> tried;
  double most = limitPerSample();
  for (const Estimate &known : std::vector<Estimate>(found)) {
    if (!known.degrees.groups.empty() || known.perSample() > most)
      continue;
    bool recomputes = known.degrees.recompute != Recompute::None;
    Degrees degrees = known.degrees;
    degrees.recomputeBlocks = 0;
    if (!recomputes)
      degrees.recompute = recomputations().front();
    // The level below, if it fits as it is, needs no part of this one.
    for (int zero : {known.degrees.zero, known.degrees.zero + 1}) {
      degrees.zero = zero;
      bool isOpen = zero == known.degrees.zero ? !fitsBelow(degrees) : recomputes;
      if (zero >= 2 && zero <= 3 && isOpen && tried.insert({degrees, known.variant}).second)
        tryBetweenLevels(degrees, known.variant);
    }
  }
}

/// Kept if faster than the best by more than estimates are off.
void PlanSearch::tryBetweenLevels(const Degrees &degrees, const ShardVariant &variant) {
  constexpr double worthMixing = 0.99;
  EstimateOptions asked;
  asked.limit = worthMixing * found.front().perSample() * double(degrees.samples());
  asked.someBlocks = !spec.recompute && degrees.recompute != Recompute::None;
  asked.mixesLevels = true;
  Estimate mixed;
  if (estimate(degrees, variant, asked, mixed) == Estimator::Outcome::Found)
    keep(std::move(mixed));
}

/// Whether all can be stored by the level below, with nothing recomputed.
bool PlanSearch::fitsBelow(Degrees degrees) const {
  --degrees.zero;
  degrees.recompute = Recompute::None;
  return std::any_of(found.begin(), found.end(),
                     [&](const Estimate &other) { return other.degrees == degrees; });
}

} // namespace dtc::plan
