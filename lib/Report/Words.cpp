#include "dtc/Report/Words.h"

#include "dtc/Plan/Plan/Settings.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

namespace dtc::report {

using plan::Degrees;

static std::string threeDigits(double value, const char *unit) {
  char text[64];
  int decimals = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  std::snprintf(text, sizeof(text), "%.*f %s", decimals, value, unit);
  return text;
}

std::string formatBytes(double bytes) {
  static const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit)
    bytes /= 1024;
  return unit ? threeDigits(bytes, units[unit]) : std::to_string(int64_t(bytes)) + " B";
}

std::string formatSeconds(double seconds) {
  if (seconds < 1e-3)
    return threeDigits(seconds * 1e6, "us");
  return seconds < 1 ? threeDigits(seconds * 1e3, "ms") : threeDigits(seconds, "s");
}

const char *collectiveName(sharding::StepKind kind) {
  switch (kind) {
  case sharding::StepKind::AllReduce:
    return "all_reduce";
  case sharding::StepKind::ReduceScatter:
    return "reduce_scatter";
  case sharding::StepKind::AllGather:
    return "all_gather";
  case sharding::StepKind::AllToAll:
    return "all_to_all";
  case sharding::StepKind::Permute:
    return "permute";
  case sharding::StepKind::Slice:
    return "slice";
  }
  return "unknown";
}

const char *collectiveName(const plan::CollectiveUse &use) {
  return use.send ? "send" : collectiveName(use.kind);
}

std::vector<std::pair<std::string, int64_t>> deviceTypes(const plan::Cluster &cluster,
                                                         int64_t devices) {
  if (cluster.others.empty())
    return {{cluster.device.name, devices}};
  std::vector<std::pair<std::string, int64_t>> types;
  for (int64_t id = 0; id < devices; ++id) {
    const std::string &name = cluster.deviceAt(id).name;
    auto known = std::find_if(types.begin(), types.end(),
                              [&](const auto &type) { return type.first == name; });
    if (known == types.end())
      known = types.insert(known, {name, 0});
    ++known->second;
  }
  return types;
}

std::string devicesText(const plan::Cluster &cluster, int64_t devices) {
  std::string text;
  for (const auto &[name, count] : deviceTypes(cluster, devices))
    text += (text.empty() ? "" : " + ") + std::to_string(count) + " x " + name;
  return text;
}

std::string parametersText(const plan::Problem &problem) {
  const int64_t padding = problem.paddingElements();
  return std::to_string(problem.parameterElements()) + " parameters" +
         (padding > 0 ? " and " + std::to_string(padding) + " of padding" : "");
}

std::string paddedSamplesText(int64_t samples) {
  return samples > 0 ? " and " + std::to_string(samples) + " of padding" : "";
}

std::string familyOf(const std::string &name) {
  std::string family;
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])))
      ++end;
    bool component = end > i && (i == 0 || name[i - 1] == '.') &&
                     (end == name.size() || name[end] == '.');
    family += component ? "*" : name.substr(i, std::max<size_t>(end - i, 1));
    i = std::max(end, i + 1);
  }
  return family;
}

std::string rangeText(const std::vector<int64_t> &numbers) {
  if (numbers.empty())
    return "-";
  std::string first = std::to_string(numbers.front()), last = std::to_string(numbers.back());
  auto count = static_cast<int64_t>(numbers.size());
  if (count == 1)
    return first;
  if (numbers.back() - numbers.front() + 1 == count)
    return first + "-" + last;
  return first + "," + (count == 2 ? "" : std::to_string(numbers[1]) + ",..,") + last;
}

std::string hostText(const plan::HostUse &host) {
  std::string text = formatBytes(host.bytes) + " of " + std::to_string(host.ranks) +
                     (host.ranks == 1 ? " rank" : " ranks") + " in node " +
                     std::to_string(host.node);
  if (host.isKnown())
    text += ", of " + formatBytes(host.capacity);
  if (host.unknown > 0)
    text += "; not checked" +
            (host.isKnown() ? " in " + std::to_string(host.unknown) + " nodes" : std::string()) +
            ": the cluster doesn't say host_memory_gb";
  return text;
}

std::string shortText(const plan::Prediction &predicted) {
  if (predicted.shortBytes() > 0)
    return formatBytes(predicted.shortBytes()) + " short";
  double missing = predicted.host.shortBytes();
  return missing > 0 ? formatBytes(missing) + " of host memory short" : "";
}

std::string degreesText(const Degrees &degrees) {
  std::string text;
  for (const plan::Setting &setting : plan::settings()) {
    if (setting.topic == plan::Topic::Batch)
      continue;
    if (isBlockCount(setting))
      text += blocksText(setting, degrees);
    else if (setting.said == plan::Said::Always ||
             (setting.said != plan::Said::WithOthers && !isPlain(setting, degrees)))
      text += (text.empty() ? "" : " ") + settingText(setting, degrees);
  }
  const plan::Setting &microBatch = plan::settingOf(&Degrees::microBatch);
  if (!isPlain(microBatch, degrees))
    text +=
        " " + settingText(microBatch, degrees) + " x " + std::to_string(degrees.numMicrobatches);
  return text;
}

std::string formatPercent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", 100 * share);
  return text;
}

std::string ranksText(int64_t first, int64_t last) {
  return first == last ? "pipeline rank " + std::to_string(first)
                       : "pipeline ranks " + std::to_string(first) + "-" + std::to_string(last);
}

std::string groupRanksText(const plan::Degrees &degrees, size_t group) {
  int64_t first = 0;
  for (size_t before = 0; before < group; ++before)
    first += degrees.groups[before].pp;
  return ranksText(first, first + degrees.groups[group].pp - 1);
}

} // namespace dtc::report
