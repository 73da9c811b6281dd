// The search: candidates and their floors, rounds of strategies, and the best plans in full.
#include "dtc/Plan/Search/Search.h"

#include "Strategies.h"

#include "dtc/Plan/Cost/OpWork.h"
#include "dtc/Plan/Plan/Settings.h"
#include "dtc/Plan/Predict/StageDevices.h"
#include "dtc/Plan/Search/Remedy.h"
#include "dtc/Plan/Shard/Experts.h"
#include "dtc/Plan/Solve/Parallel.h"

#include <algorithm>
#include <limits>

namespace dtc::plan {

//===-- candidates --------------------------------------------------------===//

/// Devices that the fastest links join, but at least a usual node's.
static int64_t nearDevices(const Cluster &cluster, int64_t devices) {
  constexpr int64_t usualNode = 8;
  int64_t size = cluster.levels.empty() ? 0 : cluster.levels.front().size;
  return size > 0 ? std::max(size, usualNode) : devices;
}

std::vector<Degrees> listCandidates(SearchState &state) {
  const Cluster &cluster = state.cluster;
  const SearchOptions &options = state.options;
  Candidates all = findCandidates(state.problem, state.facts, state.spec, options,
                                  {static_cast<int64_t>(state.shardings.getBlocks().size()),
                                   nearDevices(cluster, options.devices),
                                   Experts(state.problem, state.facts).mostRanks,
                                   alikeDevices(cluster, options.devices),
                                   cluster.software.evenStages, !cluster.others.empty()});
  state.refusal = all.refusal;
  for (Degrees &degrees : all.list)
    degrees.contextExchange = usualExchange(state, degrees.cp);
  return std::move(all.list);
}

void addCandidates(SearchState &state, const std::vector<Degrees> &list) {
  ShardVariant first = plainVariants(state).front();
  state.estimator.lookAhead(list, first);
  for (const Degrees &degrees : list) {
    double floor = state.estimator.lowerBound(degrees, first, state.refusal);
    if (floor < std::numeric_limits<double>::infinity())
      state.candidates.push_back({degrees, floor / double(degrees.samples())});
  }
  std::stable_sort(state.candidates.begin(), state.candidates.end(),
                   [](const Candidate &a, const Candidate &b) { return a.floor < b.floor; });
}

bool canHoldModel(const SearchState &state) {
  if (!state.cluster.others.empty())
    return true;
  ParameterBytes all = modelBytes(state.problem, state.facts, state.cluster.software);
  return double(all.parameter + all.gradient) <=
         double(state.options.devices) * state.shardings.getModel().memoryPerRank();
}

//===-- the answer --------------------------------------------------------===//

using Completed = std::optional<Result<CompletePlan>>;

/// The runners-up, which nearly always are all that is told of; by their place in
/// `found`, the others empty.
static std::vector<Completed> completeRunnersUp(SearchState &state) {
  std::vector<const Estimate *> best = bestRunnersUp(state);
  std::vector<Completed> result(state.found.size());
  inParallel(best.size(), [&](size_t i) {
    result[best[i] - state.found.data()] = completePlan(
        state.problem, state.cluster, state.shardings, *best[i], MemoryDetail::IfItFits);
  });
  return result;
}

/// The best of what has been found as complete plans; `anyMemory`: one, whether it fits or not.
static Result<std::vector<CompletePlan>> completeBest(SearchState &state, bool anyMemory) {
  std::vector<CompletePlan> result;
  std::optional<Error> lastError;
  const std::vector<Estimate> &found = state.found;
  std::vector<Completed> known(found.size());
  const MemoryDetail detail = anyMemory ? MemoryDetail::Exact : MemoryDetail::IfItFits;
  if (!anyMemory)
    known = completeRunnersUp(state);
  for (size_t i = 0; i < found.size(); ++i) {
    if (result.size() > kRunnersUp || (anyMemory && !result.empty()))
      break;
    if (std::any_of(result.begin(), result.end(), [&](const CompletePlan &other) {
          return runnerUpOf(other.plan.degrees) == runnerUpOf(found[i].degrees);
        }))
      continue;
    Result<CompletePlan> whole =
        known[i] ? std::move(*known[i])
                 : completePlan(state.problem, state.cluster, state.shardings, found[i], detail);
    if (!whole)
      lastError = whole.error();
    else if (anyMemory || whole->predicted.fits())
      result.push_back(std::move(*whole));
  }
  if (result.empty())
    return lastError ? *lastError : Error{"no plan fits", ErrorCategory::NoFit};
  std::stable_sort(result.begin(), result.end(), [](const CompletePlan &a, const CompletePlan &b) {
    return a.predicted.stepSeconds / double(a.globalBatch()) <
           b.predicted.stepSeconds / double(b.globalBatch());
  });
  return result;
}

/// Where each rank brings its own samples, degrees decide the batch. What is told beside the best
/// plan has its batch, or steps couldn't be compared.
static void keepBatch(SearchState &state, std::vector<CompletePlan> &best) {
  const int64_t batch = best.front().globalBatch();
  std::erase_if(best, [&](const CompletePlan &plan) { return plan.globalBatch() != batch; });
  for (const Estimate &estimate : state.found) {
    if (best.size() > kRunnersUp)
      break;
    bool isKnown = std::any_of(best.begin(), best.end(), [&](const CompletePlan &other) {
      return runnerUpOf(other.plan.degrees) == runnerUpOf(estimate.degrees);
    });
    if (isKnown || estimate.degrees.samples() != batch)
      continue;
    auto whole = completePlan(state.problem, state.cluster, state.shardings, estimate,
                              MemoryDetail::IfItFits);
    if (whole && whole->predicted.fits())
      best.push_back(std::move(*whole));
  }
  std::stable_sort(best.begin() + 1, best.end(), [](const CompletePlan &a, const CompletePlan &b) {
    return a.predicted.stepSeconds < b.predicted.stepSeconds;
  });
}

static SearchOutcome answer(SearchState &state, bool anyMemory) {
  auto best = completeBest(state, anyMemory);
  if (!best)
    return best.error();
  if (state.options.samplesPerRank && !anyMemory)
    keepBatch(state, *best);
  CompletePlan &first = best->front();
  Result<Problem> planned = unfoldPlan(state.shardings, first);
  if (!planned)
    return planned.error();
  SearchResult result;
  result.pinned = isPinned(state.spec);
  result.plan = std::move(first.plan);
  result.predicted = std::move(first.predicted);
  result.problem = std::move(*planned);
  result.solver = first.solver;
  result.optimalityGap = first.gap;
  for (size_t i = 1; i < best->size(); ++i)
    result.alternatives.push_back(
        {(*best)[i].plan.degrees, std::move((*best)[i].predicted)});
  return result;
}

//===-- the search --------------------------------------------------------===//

/// In the order of Strategies.h.
static std::vector<SearchRound> roundsOf(const SearchState &state) {
  if (!canHoldModel(state))
    return {};
  Offload offload = state.spec.offload.value_or(Offload::None);
  std::vector<ShardVariant> fast = plainVariants(state), small = smallVariants(state);
  std::vector<SearchRound> rounds = {{fast, offload, false}, {small, offload, false}};
  if (state.mayOffload())
    rounds.insert(rounds.end(), {{fast, Offload::Optimizer, true},
                                 {small, Offload::Optimizer, true}});
  return rounds;
}

/// Whether one plan may fit where another doesn't.
static bool hasChoice(const SearchState &state) {
  return !isPinned(state.spec) || std::any_of(state.candidates.begin(), state.candidates.end(),
                                              [&](const Candidate &candidate) {
                                                return state.choosesKept(candidate.degrees);
                                              });
}

/// The best plans of a round. What is estimated to fit may turn out not to: then it is searched
/// once more for what fits without doubt.
static std::optional<SearchResult> runRound(SearchState &state, const SearchRound &round) {
  for (;;) {
    state.found.clear();
    for (const Strategy &strategy : kStrategies)
      if (!state.options.without.count(strategy.name))
        strategy.run(state, round);
    if (state.found.empty())
      return std::nullopt;
    if (SearchOutcome fitting = answer(state, false))
      return std::move(*fitting);
    if (state.confirms || !hasChoice(state))
      return std::nullopt;
    state.confirms = true;
    state.outOfReach.clear();
  }
}

/// Another value of a setting that is pinned, with which the model can be sharded; of a degree
/// only where nothing else does.
static std::string otherValue(const SearchState &state) {
  SearchOptions options = state.options;
  options.fixedCalls = false; // whoever takes the advice makes other calls
  std::vector<Unpinned> pins = withoutEachPin(options.spec);
  std::stable_partition(pins.begin(), pins.end(),
                        [](const Unpinned &each) { return each.setting->effort != Effort::Mesh; });
  for (const auto &[setting, without] : pins) {
    Result<Spec> spec = fill(withFixed(options.abilities, without), options.devices);
    if (!spec)
      continue;
    SearchState other(state.problem, state.cluster, options, *spec);
    addCandidates(other, listCandidates(other));
    if (!other.candidates.empty())
      return "; with " + settingText(*setting, other.candidates.front().degrees) + " there is one";
  }
  return "";
}

SearchOutcome runStrategies(SearchState &state) {
  const SearchOptions &options = state.options;
  const std::vector<Degrees> listed = listCandidates(state);
  addCandidates(state, listed);
  if (state.candidates.empty())
    return Error{"no plan for " + std::to_string(options.devices) + " devices" +
                     (state.refusal.empty() ? "" : ": " + state.refusal) +
                     (listed.empty() || !options.adviseOtherwise ? "" : otherValue(state)),
                 ErrorCategory::NoFit};
  const std::vector<SearchRound> rounds = roundsOf(state);
  const bool outOfReach = !rounds.empty() && isOutOfReach(state);
  for (size_t i = 0; i < rounds.size() && !outOfReach; ++i)
    if (std::optional<SearchResult> fitting = runRound(state, rounds[i]))
      return std::move(*fitting);
  if (!options.findClosest && !isPinned(state.spec))
    return Error{"no plan fits", ErrorCategory::NoFit};
  if (!outOfReach) {
    state.found.clear();
    searchClosest(state);
  }
  auto closest = answer(state, true);
  // What was estimated not to fit may do.
  if (!closest || isPinned(state.spec) || closest->predicted.fits())
    return closest;
  return SearchFailure(ClosestPlan{closest->plan.degrees, std::move(closest->predicted)});
}

SearchOutcome search(const Problem &problem, const Cluster &cluster, const SearchOptions &options) {
  if (std::string error = check(problem); !error.empty())
    return Error{"plan: " + error};
  if (int64_t limit = cluster.devices(); limit > 0 && options.devices > limit)
    return Error{"plan: the cluster " + cluster.name + " has " + std::to_string(limit) +
                     " devices, fewer than are asked for: " + std::to_string(options.devices),
                 ErrorCategory::Usage};
  if (auto unable = unableTo(options.abilities, options.spec); !unable.empty())
    return Error{"plan: " + unable.front(), ErrorCategory::Usage};
  Result<Spec> spec = fill(withFixed(options.abilities, options.spec), options.devices);
  if (!spec)
    return spec.error();
  SearchState state(problem, cluster, options, *spec);
  SearchOutcome found = runStrategies(state);
  if (found || !found.error().closestPlan || !options.adviseOtherwise)
    return found;
  ClosestPlan closest = *found.error().closestPlan;
  closest.remedy = findRemedy(problem, cluster, options);
  return SearchFailure(std::move(closest));
}

} // namespace dtc::plan
