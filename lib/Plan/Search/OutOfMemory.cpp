#include "dtc/Plan/Search/OutOfMemory.h"

#include "LeastMemory.h"

#include <cstdio>
#include <optional>

namespace dtc::plan {

/// In the unit of the capacity, so that all figures add up as they are read.
static std::string sizeText(double bytes, double capacity) {
  constexpr double gib = 1024.0 * 1024 * 1024, mib = 1024.0 * 1024;
  char text[64];
  if (capacity >= gib)
    std::snprintf(text, sizeof(text), "%.1f GiB", bytes / gib);
  else
    std::snprintf(text, sizeof(text), "%.2f MiB", bytes / mib);
  return text;
}

/// Of a device's memory.
static std::string ofDevice(const Prediction &predicted) {
  const MemoryUse &memory = predicted.memory;
  size_t worst = 0;
  auto filled = [&](size_t stage) {
    return double(predicted.stages[stage].peakMemory) / predicted.stages[stage].memoryCapacity;
  };
  for (size_t i = 0; i < predicted.stages.size(); ++i)
    if (filled(i) > filled(worst))
      worst = i;
  auto size = [&](double bytes) { return sizeText(bytes, predicted.memoryCapacity); };
  std::string where =
      predicted.stages.size() > 1 ? " on stage " + std::to_string(worst) : std::string();
  std::string reserved =
      memory.reserved > 0 ? ", reserved " + size(double(memory.reserved)) : std::string();
  if (memory.cached > 0)
    reserved += ", cached " + size(double(memory.cached));
  return size(double(memory.total())) + " a rank" + where + " (parameters " +
         size(double(memory.parameters)) + ", gradients " + size(double(memory.gradients)) +
         ", optimizer " + size(double(memory.optimizer)) + ", activations " +
         size(double(memory.activations)) + reserved + "), there are " +
         size(predicted.memoryCapacity) + ": " + size(predicted.shortBytes()) + " short";
}

/// Of a host's.
static std::string ofHost(const HostUse &host) {
  auto size = [&](double bytes) { return sizeText(bytes, host.capacity); };
  return size(host.bytes) + " of host memory in node " + std::to_string(host.node) +
         " for the optimizer states of " + std::to_string(host.ranks) +
         (host.ranks == 1 ? " rank" : " ranks") + ", there are " + size(host.capacity) + ": " +
         size(host.shortBytes()) + " short";
}

std::string describeShortage(const SearchResult &closest) {
  const Prediction &predicted = closest.predicted;
  std::string text = kNoPlanFits + summary(closest.plan.degrees) + " needs ";
  if (predicted.host.shortBytes() <= 0)
    return text + ofDevice(predicted);
  if (predicted.shortBytes() <= 0)
    return text + ofHost(predicted.host);
  return text + ofDevice(predicted) + "; and " + ofHost(predicted.host);
}

std::string setting(const std::string &key, const Degrees &degrees) {
  if (key == kGroupsKey)
    return "dp=" + groupsText(degrees, &Degrees::dp) + " tp=" + groupsText(degrees, &Degrees::tp) +
           " pp=" + std::to_string(degrees.pp) + rankCounts(degrees);
  std::string text = " " + summary(degrees);
  size_t at = text.find(" " + key + "=");
  if (at == std::string::npos && key == "order")
    return key + "=" + name(degrees.order);
  if (at == std::string::npos) // zero_group=0
    return key + "=" + std::to_string(degrees.dp);
  return text.substr(at + 1, text.find(' ', at + 1) - at - 1);
}

std::vector<std::pair<std::string, Spec>> eachKeyLess(const Spec &spec) {
  std::vector<std::pair<std::string, Spec>> result;
  auto add = [&](const std::string &key, auto Spec::*field) {
    if (!(spec.*field))
      return;
    Spec without = spec;
    (without.*field).reset();
    result.emplace_back(key, without);
  };
  // What costs least to change comes first.
  add("zero", &Spec::zero);
  if (spec.groups.empty())
    add("micro_batch", &Spec::microBatch);
  add("recompute", &Spec::recompute);
  add("schedule", &Spec::schedule);
  add("chunks", &Spec::chunks);
  add("sp", &Spec::sp);
  add("zero_group", &Spec::zeroGroup);
  add("offload", &Spec::offload);
  add("order", &Spec::order);
  if (!spec.groups.empty()) {
    Spec without = spec;
    without.groups.clear();
    without.dp = without.tp = without.pp = without.microBatch = std::nullopt;
    result.emplace_back(kGroupsKey, without);
    return result;
  }
  for (auto [key, field] : {std::pair("dp", &Spec::dp), {"tp", &Spec::tp}, {"pp", &Spec::pp},
                            {"cp", &Spec::cp}, {"ep", &Spec::ep}})
    add(key, field);
  return result;
}

namespace {

/// Searches like one for which nothing fits, but in a few things.
class RemedySearch {
public:
  RemedySearch(const Problem &problem, const Cluster &cluster, const SearchOptions &given)
      : problem(problem), cluster(cluster), options(given) {
    options.findClosest = options.adviseOtherwise = false;
  }
  bool fits(const Spec &spec, int64_t devices) {
    if (int64_t limit = cluster.devices(); limit > 0 && devices > limit)
      return false;
    options.spec = spec;
    options.devices = devices;
    return fitsWithLeastMemory(problem, cluster, options);
  }
  /// The degrees of the best plan that fits, if any does.
  std::optional<Degrees> with(const Spec &spec, int64_t devices) {
    if (!fits(spec, devices))
      return std::nullopt;
    Result<SearchResult> found = search(problem, cluster, options);
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
      bool isEnough = fits({}, 2 * devices);
      if (!isEnough && (cluster.devices() == 0 || 2 * devices <= cluster.devices()))
        continue;
      for (int64_t quarters = 5; quarters < 8; ++quarters)
        if (int64_t count = devices * quarters / 4;
            devices * quarters % 4 == 0 && fillsNodes(count) && fits({}, count))
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
};

} // namespace

std::string suggestRemedy(const Problem &problem, const Cluster &cluster,
                          const SearchOptions &options) {
  RemedySearch search(problem, cluster, options);
  const auto pins = eachKeyLess(options.spec);
  for (const auto &[key, without] : pins)
    if (auto found = search.with(without, options.devices))
      return "; with " + setting(key, *found) + " a plan fits";
  if (pins.size() > 1)
    if (auto found = search.with({}, options.devices))
      return "; with nothing pinned a plan fits: " + summary(*found);
  if (problem.globalBatch() == 0)
    return "";
  int64_t devices = search.moreDevices();
  return devices == 0 ? ""
                      : "; on " + std::to_string(devices) + " devices" +
                            (pins.empty() ? "" : ", with nothing pinned,") + " a plan fits";
}

/// Degrees and settings that no phase carries out yet, or no planner chooses.
std::string unsupportedSpec(const Problem &problem, const SearchOptions &options) {
  std::vector<std::string> list = unimplemented(problem, options.spec);
  return options.executable && !list.empty() ? "plan: " + list.front() : "";
}

} // namespace dtc::plan
