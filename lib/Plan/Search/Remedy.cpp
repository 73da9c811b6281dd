#include "dtc/Plan/Search/Remedy.h"

#include "LeastMemory.h"

#include "dtc/Plan/Plan/Settings.h"

#include <algorithm>
#include <optional>

namespace dtc::plan {

/// Whether stage groups say it, where there are any.
static bool isSaidByGroups(const Setting &setting) {
  return setting.effort == Effort::Mesh || &setting == &settingOf(&Degrees::microBatch);
}

static Spec without(const Setting &setting, Spec spec) {
  unpin(setting, spec);
  if (&setting == &settingOf(&Degrees::schedule)) // others take no limit
    unpin(settingOf(&Degrees::kept), spec);
  if (isList(setting))
    for (auto degree : {&Degrees::dp, &Degrees::tp, &Degrees::pp, &Degrees::microBatch})
      unpin(settingOf(degree), spec);
  return spec;
}

/// With another value it would be another problem.
static bool isBuiltIn(const Setting &setting) {
  return &setting == &settingOf(&Degrees::capacity) || &setting == &settingOf(&Degrees::overflow);
}

Spec withoutPins(const Spec &spec) {
  Spec open;
  open.capacity = spec.capacity;
  open.overflow = spec.overflow;
  return open;
}

Spec withCalls(const Degrees &degrees, Spec asked) {
  for (const Setting &setting : settings())
    if (setting.effort == Effort::Mesh || &setting == &settingOf(&Degrees::microBatch))
      pinAsPlanned(setting, degrees, asked);
  return asked;
}

Cluster withMemory(Cluster cluster, double share) {
  cluster.device.memoryBytes *= share;
  for (NodeGroup &other : cluster.others)
    other.device.memoryBytes *= share;
  return cluster;
}

std::vector<Unpinned> withoutEachPin(const Spec &spec) {
  std::vector<Unpinned> result;
  for (const Setting &setting : settings())
    if (isPinned(setting, spec) && !isBuiltIn(setting) &&
        (spec.groups.empty() || isList(setting) || !isSaidByGroups(setting)))
      result.push_back({&setting, without(setting, spec)});
  std::stable_sort(result.begin(), result.end(), [](const Unpinned &a, const Unpinned &b) {
    return a.setting->effort < b.setting->effort;
  });
  return result;
}

namespace {

/// Searches like one for which nothing fits, but in a few things.
class RemedySearch {
public:
  RemedySearch(const Problem &problem, const Cluster &cluster, const SearchOptions &given)
      : problem(problem), cluster(cluster), options(given), open(withoutPins(given.spec)),
        least(problem, cluster) {
    options.findClosest = options.adviseOtherwise = false;
  }
  bool fits(const Spec &spec, int64_t devices) {
    if (int64_t limit = cluster.devices(); limit > 0 && devices > limit)
      return false;
    options.spec = spec;
    options.devices = devices;
    return least.fits(options);
  }
  /// The degrees of the best plan that fits, if any does.
  std::optional<Degrees> with(const Spec &spec, int64_t devices) {
    if (!fits(spec, devices))
      return std::nullopt;
    SearchOutcome found = search(problem, cluster, options);
    if (!found || !found->predicted.fits())
      return std::nullopt;
    return found->plan.degrees;
  }
  /// How many devices would do with nothing pinned: twice as many or, of those below, as few
  /// quarters more; in whole nodes. 0: none of up to 64 times as many.
  int64_t moreDevices() {
    constexpr int64_t most = 64;
    const int64_t given = options.devices;
    for (int64_t devices = given; devices < most * given; devices *= 2) {
      bool isEnough = fits(open, 2 * devices);
      if (!isEnough && (cluster.devices() == 0 || 2 * devices <= cluster.devices()))
        continue;
      for (int64_t quarters = 5; quarters < 8; ++quarters)
        if (int64_t count = devices * quarters / 4;
            devices * quarters % 4 == 0 && fillsNodes(count) && fits(open, count))
          return count;
      return isEnough ? 2 * devices : 0;
    }
    return 0;
  }

private:
  bool fillsNodes(int64_t devices) const {
    int64_t node = cluster.devicesPerNode;
    return node == 0 || devices <= node || devices % node == 0;
  }

  const Problem &problem;
  const Cluster &cluster;
  SearchOptions options;
  const Spec open;
  LeastMemory least;
};

} // namespace

Remedy findRemedy(const Problem &problem, const Cluster &cluster, const SearchOptions &options) {
  RemedySearch search(problem, cluster, options);
  const std::vector<Unpinned> pins = withoutEachPin(options.spec);
  Remedy remedy;
  for (const auto &[setting, without] : pins)
    if ((remedy.plan = search.with(without, options.devices))) {
      remedy.setting = setting;
      return remedy;
    }
  remedy.unpins = !pins.empty();
  if (pins.size() > 1 && (remedy.plan = search.with(withoutPins(options.spec), options.devices)))
    return remedy;
  if (problem.globalBatch() > 0)
    remedy.devices = search.moreDevices();
  return remedy;
}

} // namespace dtc::plan
