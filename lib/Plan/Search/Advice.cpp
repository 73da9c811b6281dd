// Advice on numbers of devices that share few divisors with the batch.
#include "dtc/Plan/Search/Search.h"

#include <algorithm>
#include <limits>

namespace dtc::plan {

/// Fewer devices are worth telling of if they are faster by so much.
static constexpr double kFaster = 0.97;

static bool isOpen(const Spec &spec) {
  return !spec.dp && !spec.tp && !spec.pp && !spec.cp && !spec.ep && spec.groups.empty();
}

/// Fewer devices that a batch is likelier to be shared among: the most that divide it, the largest
/// power of two, and whole nodes. None of less than half.
static std::vector<int64_t> fewerDevices(const Cluster &cluster, int64_t devices, int64_t batch) {
  std::vector<int64_t> counts;
  auto add = [&](int64_t count) {
    bool isNew = std::find(counts.begin(), counts.end(), count) == counts.end();
    if (2 * count >= devices && count < devices && isNew)
      counts.push_back(count);
  };
  int64_t divisor = devices - 1;
  while (divisor > 1 && batch % divisor != 0)
    --divisor;
  add(divisor);
  int64_t power = 1;
  while (2 * power < devices)
    power *= 2;
  add(power);
  if (int64_t node = cluster.devicesPerNode; node > 1)
    add((devices - 1) / node * node);
  return counts;
}

/// The fastest plan on fewer devices that beats `seconds`.
static std::optional<Alternative> fasterOnFewer(const Problem &problem, const Cluster &cluster,
                                                SearchOptions options, double seconds) {
  std::optional<Alternative> best;
  for (int64_t count : fewerDevices(cluster, options.devices, problem.globalBatch())) {
    options.devices = count;
    SearchOutcome found = search(problem, cluster, options);
    if (!found || !found->predicted.fits() || found->predicted.stepSeconds >= kFaster * seconds)
      continue;
    seconds = found->predicted.stepSeconds / kFaster; // of two that are equal, the first
    best = Alternative{found->plan.degrees, std::move(found->predicted)};
  }
  return best;
}

/// Whether each device can have its own samples, if there are enough of them.
static bool canShareBatch(const Problem &problem, const Cluster &cluster, SearchOptions options,
                          int64_t samples) {
  options.spec.dp = options.devices;
  options.samplesPerRank = samples;
  SearchOutcome found = search(problem, cluster, options);
  return found && found->predicted.fits();
}

void adviseOn(SearchOutcome &found, const Problem &problem, const Cluster &cluster,
              const SearchOptions &asked) {
  const int64_t devices = asked.devices, batch = problem.globalBatch();
  bool isRefusal =
      !found && !found.error().closestPlan && found.error().category == ErrorCategory::NoFit;
  if ((!found && !isRefusal) || asked.samplesPerRank || asked.fixedCalls || !isOpen(asked.spec) ||
      batch < 1 || batch % devices == 0 || (found && (devices & (devices - 1)) == 0))
    return;
  SearchOptions options = asked;
  options.findClosest = options.adviseOtherwise = false;
  double seconds = found ? found->predicted.stepSeconds : std::numeric_limits<double>::infinity();
  Advice advice{fasterOnFewer(problem, cluster, options, seconds), isRefusal};
  int64_t samples = (batch + devices - 1) / devices;
  if ((advice.fewer || isRefusal) && canShareBatch(problem, cluster, options, samples))
    advice.globalBatch = samples * devices;
  if (found) {
    found->advice = std::move(advice);
    return;
  }
  SearchFailure failure = found.error();
  failure.advice = std::move(advice);
  failure.devices = devices;
  found = std::move(failure);
}

} // namespace dtc::plan
