// The search: all degrees in the order of their lower bounds, each with the
// least memory saving that makes it fit, until no bound is below the best.
//
// A step's floor is the work of one data-parallel rank's microbatches through its
// pipeline, cut as well as it can be. Recomputation only ever costs time: as few blocks
// as memory asks for are recomputed (StagePrices.h), what attention keeps before whole
// blocks. States are offloaded where memory is short and that is faster, or where nothing
// else fits. ZeRO is not like that (what it exchanges each microbatch may hide behind
// computation), so all levels are tried, and groups of ranks within which it
// stores: smaller ones exchange over faster links and hold more, so that what a
// large one recomputes is the least that a smaller one has to. What lies between two levels
// (Storage.h) is tried where the lower one doesn't fit as it is, and kept where it beats all
// that is known.
#include "PlanSearch.h"

#include "dtc/Plan/Predict/StageDevices.h"
#include "dtc/Plan/Search/Shortage.h"
#include "dtc/Plan/Shard/Experts.h"
#include "dtc/Plan/Solve/Parallel.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace dtc::plan {

/// Devices that the fastest links join, but at least a usual node's.
static int64_t nearDevices(const Cluster &cluster, int64_t devices) {
  constexpr int64_t usualNode = 8;
  int64_t size = cluster.levels.empty() ? 0 : cluster.levels.front().size;
  return size > 0 ? std::max(size, usualNode) : devices;
}

Degrees kindOf(Degrees degrees) {
  const Degrees plain;
  degrees.schedule = plain.schedule;
  degrees.chunks = plain.chunks;
  degrees.sp = plain.sp;
  degrees.zeroGroup = plain.zeroGroup;
  degrees.zeroBlocks = plain.zeroBlocks;
  degrees.recomputeBlocks = plain.recomputeBlocks;
  for (StageGroup &group : degrees.groups)
    group.sp = false;
  degrees.order = plain.order;
  return degrees;
}

static int64_t mostTensorRanks(const Degrees &degrees) {
  int64_t most = degrees.tp;
  for (const StageGroup &group : degrees.groups)
    most = std::max(most, group.tp);
  return most;
}

/// How many of the best are carried out in full; the others are estimates.
constexpr size_t kRunnersUp = 5;

//===-- what is tried -----------------------------------------------------===//

bool PlanSearch::trains() const {
  return std::any_of(facts.gradientResult.begin(), facts.gradientResult.end(),
                     [](int result) { return result >= 0; });
}

std::vector<int> PlanSearch::zeroLevels(const Degrees &degrees) const {
  if (spec.zero)
    return {*spec.zero};
  int64_t ranks = degrees.dp;
  for (const StageGroup &group : degrees.groups)
    ranks = std::max(ranks, group.dp);
  if (degrees.zeroGroup > 0)
    ranks = std::min(ranks, degrees.zeroGroup);
  if (options.executable || !trains() || ranks * degrees.ep * degrees.cp == 1)
    return {0};
  return {0, 1, 2, 3};
}

std::vector<Recompute> PlanSearch::recomputations() const {
  if (spec.recompute)
    return {*spec.recompute};
  if (options.executable || !trains() || library.getBlocks().empty())
    return {Recompute::None};
  if (!library.keepsInsideOps()) // a fused attention has nothing to select
    return {Recompute::Full};
  return {Recompute::Selective, Recompute::Full};
}

void PlanSearch::orderFamilies(const std::vector<Degrees> &list) {
  ShardVariant first = plainVariants().front();
  estimator.lookAhead(list, first);
  for (const Degrees &degrees : list) {
    double floor = estimator.lowerBound(degrees, first, refusal);
    if (floor < std::numeric_limits<double>::infinity())
      families.push_back({degrees, floor / double(degrees.samples())});
  }
  std::stable_sort(families.begin(), families.end(),
                   [](const Family &a, const Family &b) { return a.floor < b.floor; });
}

//===-- the search --------------------------------------------------------===//

/// Seconds a sample that a plan must stay below to be told of: among the best
/// few, and not much slower than the best.
double PlanSearch::limitPerSample() const {
  constexpr double worthTelling = 1.1;
  if (mustBeat)
    return *mustBeat;
  if (found.empty())
    return std::numeric_limits<double>::infinity();
  if (bestAlone)
    return found.front().perSample();
  double limit = std::min(worthTelling * found.front().perSample(), offloadBelow);
  std::vector<const Estimate *> kinds = bestKinds();
  return kinds.size() > kRunnersUp ? std::min(limit, kinds.back()->perSample()) : limit;
}

/// The fastest of each kind, those that are told of.
std::vector<const Estimate *> PlanSearch::bestKinds() const {
  std::vector<const Estimate *> result;
  std::vector<Degrees> kinds;
  for (const Estimate &estimate : found) {
    Degrees kind = kindOf(estimate.degrees);
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end())
      continue;
    kinds.push_back(kind);
    result.push_back(&estimate);
    if (result.size() > kRunnersUp)
      break;
  }
  return result;
}

double PlanSearch::limit(const Degrees &degrees) const {
  return limitPerSample() * double(degrees.samples());
}

void PlanSearch::keep(Estimate estimate) {
  auto after = std::upper_bound(
      found.begin(), found.end(), estimate,
      [](const Estimate &a, const Estimate &b) { return a.perSample() < b.perSample(); });
  found.insert(after, std::move(estimate));
  if (mustBeat)
    mustBeat = secondsToBeat();
}

/// Shardings are solved without knowing of cuts. Where stages differ, what devices of a
/// slower type receive may be what a step takes longest for, and sequence parallelism,
/// or holding less, leaves less of it to each.
bool PlanSearch::mayReceiveLess(const Degrees &degrees) const {
  return !cluster.others.empty() && degrees.pp > 1;
}

Estimator::Outcome PlanSearch::estimate(const Degrees &degrees, const ShardVariant &variant,
                                        const EstimateOptions &asked, Estimate &estimated) {
  ++estimates;
  return estimator.estimate(degrees, variant, asked, estimated, refusal);
}

Estimator::Outcome PlanSearch::tryDegrees(const Degrees &degrees, Variants variants) {
  // What doesn't fit with 1F1B fits with no schedule of as many stages, which keep no less.
  Degrees least = degrees;
  least.schedule = ScheduleKind::OneFOneB;
  least.chunks = 1;
  auto result = Estimator::Outcome::TooLarge;
  for (const ShardVariant &variant : variantsOf(degrees, variants)) {
    if (variant.sequenceParallel && mostTensorRanks(degrees) == 1 && !spec.sp)
      continue; // nothing to be parallel over
    bool someBlocks = !spec.recompute && degrees.recompute != Recompute::None;
    auto [fits, isNew] = mayFit.try_emplace({least, variant}, true);
    if (isNew && degrees != least)
      fits->second = estimator.mayFit(least, variant, someBlocks);
    wasShort = wasShort || !fits->second;
    // Ranks of several stages may share out the model more evenly.
    if (!fits->second && degrees.chunks == 1)
      continue;
    EstimateOptions asked{limit(degrees), false, someBlocks};
    if (auto outcome = tryOrders(degrees, variant, asked);
        outcome == Estimator::Outcome::TooLarge)
      continue;
    else if (outcome != Estimator::Outcome::Found)
      return outcome;
    Estimate estimated;
    auto outcome = estimate(degrees, variant, asked, estimated);
    if (outcome == Estimator::Outcome::TooLarge) {
      fits->second = fits->second && degrees != least;
      wasShort = true;
      continue;
    }
    if (outcome != Estimator::Outcome::Found && bestAlone) {
      if (result == Estimator::Outcome::TooLarge)
        result = outcome; // what is smaller may be faster: it recomputes less
      continue;
    }
    if (outcome != Estimator::Outcome::Found) {
      if (result != Estimator::Outcome::Found)
        result = outcome;
      if (outcome == Estimator::Outcome::TooSlow && mayReceiveLess(degrees))
        continue;
      return result;
    }
    result = outcome;
    // A layout that holds less may have to recompute less.
    bool recomputes = asked.someBlocks && estimated.degrees.recompute != Recompute::None;
    wasShort = wasShort || recomputes;
    keep(std::move(estimated));
    if (!recomputes && !bestAlone && !mayReceiveLess(degrees))
      return result;
  }
  return result;
}

/// Recomputes ever more, beginning with the `recompute`-th way, until a plan fits;
/// false when none does.
bool PlanSearch::searchStorage(Degrees degrees, Variants variants, size_t &recompute) {
  std::vector<Recompute> ways = recomputations();
  for (; recompute < ways.size(); ++recompute) {
    degrees.recompute = ways[recompute];
    if (tryDegrees(degrees, variants) != Estimator::Outcome::TooLarge)
      return true;
  }
  return false;
}

/// Of stages with meshes of their own, those that suit all of them.
std::vector<int64_t> PlanSearch::smallerZeroGroups(const Degrees &family) {
  if (family.groups.empty())
    return zeroGroups(family, cluster);
  std::vector<DeviceRange> ranges = neighbouringDevices(family);
  std::vector<int64_t> result;
  int64_t rank = 0;
  for (size_t group = 0; group < family.groups.size(); ++group) {
    const Cluster &own = library.on(ranges[static_cast<size_t>(rank)]).getCluster();
    for (int64_t ranks : zeroGroups(inGroup(family, group), own))
      if (suitsGroups(family, ranks))
        result.push_back(ranks);
    rank += family.groups[group].pp;
  }
  std::sort(result.begin(), result.end(), std::greater<>());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

void PlanSearch::searchFamily(const Degrees &family, Variants variants) {
  std::vector<int64_t> groups = {family.zeroGroup};
  if (!spec.zeroGroup) {
    std::vector<int64_t> smaller = smallerZeroGroups(family);
    groups.insert(groups.end(), smaller.begin(), smaller.end());
  }
  for (int zero : zeroLevels(family)) {
    Degrees degrees = family;
    degrees.zero = zero;
    size_t recompute = 0;
    for (int64_t group : groups) {
      degrees.zeroGroup = zero > 0 ? group : family.zeroGroup;
      if (!searchStorage(degrees, variants, recompute) || zero == 0)
        break;
    }
  }
}

void PlanSearch::searchFamilies(Variants variants, Offload offload) {
  for (Family &family : families) {
    if (family.floor > limitPerSample())
      return;
    Degrees degrees = family.degrees;
    degrees.offload = offload;
    wasShort = false;
    searchFamily(degrees, variants);
    family.isShort = family.isShort || wasShort;
  }
}

/// Whether that is open: plans that are pinned in full have their states on the devices.
bool PlanSearch::mayOffload() const {
  return !spec.offload && cluster.device.hasOwnMemory() && !options.executable &&
         !isPinned(spec) && trains();
}

/// What the host holds leaves room: fewer blocks are recomputed, or larger parts of the model
/// are on a device. That pays where a step is long enough to bring states back and forth, which
/// the host's other work may slow down: it has to be faster by more than nothing.
void PlanSearch::searchOffloaded() {
  constexpr double least = 0.995;
  if (found.empty())
    return;
  offloadBelow = least * found.front().perSample();
  for (const Family &family : families) {
    if (family.floor > limitPerSample())
      break;
    Degrees degrees = family.degrees;
    degrees.offload = Offload::Optimizer;
    if (family.isShort)
      searchFamily(degrees, Variants::Plain);
  }
  offloadBelow = std::numeric_limits<double>::infinity();
}

//===-- the answer --------------------------------------------------------===//

/// The fastest of each kind, which nearly always are all that is told of; by their place in
/// `found`, the others empty.
std::vector<std::optional<Result<Realized>>> PlanSearch::realizeFastest() {
  std::vector<const Estimate *> kinds = bestKinds();
  std::vector<std::optional<Result<Realized>>> result(found.size());
  inParallel(kinds.size(), [&](size_t i) {
    result[kinds[i] - found.data()] = realize(problem, cluster, library, *kinds[i]);
  });
  return result;
}

Result<SearchResult> PlanSearch::finish(bool anyMemory) {
  std::vector<Realized> realized;
  std::optional<Error> lastError;
  std::vector<std::optional<Result<Realized>>> fastest(found.size());
  if (!anyMemory)
    fastest = realizeFastest();
  for (size_t i = 0; i < found.size(); ++i) {
    if (realized.size() > kRunnersUp || (anyMemory && !realized.empty()))
      break;
    if (std::any_of(realized.begin(), realized.end(), [&](const Realized &other) {
          return kindOf(other.plan.degrees) == kindOf(found[i].degrees);
        }))
      continue;
    Result<Realized> whole = fastest[i] ? std::move(*fastest[i])
                                        : realize(problem, cluster, library, found[i]);
    if (!whole)
      lastError = whole.error();
    else if (anyMemory || whole->predicted.fits())
      realized.push_back(std::move(*whole));
  }
  if (realized.empty())
    return lastError ? *lastError : Error{"no plan fits", 4};
  std::stable_sort(realized.begin(), realized.end(), [](const Realized &a, const Realized &b) {
    return a.predicted.stepSeconds / double(a.globalBatch()) <
           b.predicted.stepSeconds / double(b.globalBatch());
  });
  Result<Problem> planned = complete(library, realized[0]);
  if (!planned)
    return planned.error();
  SearchResult result;
  result.pinned = isPinned(spec);
  result.plan = std::move(realized[0].plan);
  result.predicted = std::move(realized[0].predicted);
  result.problem = std::move(*planned);
  result.solver = realized[0].solver;
  result.optimalityGap = realized[0].gap;
  for (size_t i = 1; i < realized.size(); ++i)
    result.alternatives.push_back(
        {realized[i].plan.degrees, std::move(realized[i].predicted)});
  return result;
}

/// The most ranks of ep that a plan may have.
static int64_t expertRanks(const Experts &experts, const SearchOptions &options) {
  return options.executable && experts.ragged ? 1 : experts.mostRanks;
}

Result<SearchResult> PlanSearch::run() {
  Candidates candidates = findCandidates(
      problem, facts, spec, options,
      {static_cast<int64_t>(library.getBlocks().size()), nearDevices(cluster, options.devices),
       expertRanks(Experts(problem, facts), options), alikeDevices(cluster, options.devices),
       cluster.software.evenStages, !cluster.others.empty()});
  refusal = candidates.refusal;
  orderFamilies(candidates.list);
  if (families.empty())
    return Error{"no plan for " + std::to_string(options.devices) + " devices" +
                     (refusal.empty() ? "" : ": " + refusal), 4};
  Offload offload = spec.offload.value_or(Offload::None);
  std::vector<std::pair<Variants, Offload>> attempts = {{Variants::Plain, offload},
                                                       {Variants::Small, offload}};
  if (mayOffload())
    attempts.insert(attempts.end(), {{Variants::Plain, Offload::Optimizer},
                                     {Variants::Small, Offload::Optimizer}});
  if (!canHoldModel())
    attempts.clear();
  for (auto [variants, offloaded] : attempts) {
    found.clear();
    searchFamilies(variants, offloaded);
    if (mayOffload() && offloaded == offload)
      searchOffloaded();
    searchSmaller(offloaded, offloaded != offload);
    searchBetweenLevels();
    searchAllOrders(variants, found.empty() ? offloaded : found.front().degrees.offload);
    // What is estimated to fit may turn out not to.
    if (!found.empty())
      if (auto fitting = finish(false))
        return fitting;
  }
  if (!options.findClosest && !isPinned(spec))
    return Error{"no plan fits", 4};
  found.clear();
  searchAnyMemory();
  auto closest = finish(true);
  // What was estimated not to fit may do.
  if (!closest || isPinned(spec) || closest->predicted.fits())
    return closest;
  return Error{shortage(*closest), 4};
}

Result<SearchResult> search(const Problem &problem, const Cluster &cluster,
                            const SearchOptions &options) {
  if (std::string error = check(problem); !error.empty())
    return Error{"plan: " + error};
  if (std::string error = unsupportedSpec(problem, options); !error.empty())
    return Error{error, 2};
  if (int64_t limit = cluster.devices(); limit > 0 && options.devices > limit)
    return Error{"plan: the cluster " + cluster.name + " has " + std::to_string(limit) +
                     " devices, fewer than are asked for: " + std::to_string(options.devices), 2};
  if (options.spec.offload == Offload::Optimizer && !cluster.device.hasOwnMemory())
    return Error{"plan: the devices of the cluster " + cluster.name +
                     " have no memory beside their host's: offload=optimizer", 2};
  Result<Spec> spec = fill(options.spec, options.devices);
  if (!spec)
    return spec.error();
  auto found = PlanSearch(problem, cluster, options, *spec).run();
  if (!found && options.adviseOtherwise && found.error().message.starts_with(kNoPlanFits))
    return Error{found.error().message + wayOut(problem, cluster, options), 4};
  return found;
}

} // namespace dtc::plan
