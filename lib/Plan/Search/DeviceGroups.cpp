#include "DeviceGroups.h"

#include <algorithm>
#include <functional>

namespace dtc::plan {

std::vector<int64_t> zeroGroups(const Degrees &degrees, const Cluster &cluster) {
  std::vector<int64_t> result;
  int64_t beside = stridesOf(degrees)[static_cast<size_t>(Axis::DP)];
  auto add = [&](int64_t ranks) {
    if (ranks > 1 && ranks < degrees.dp && degrees.dp % ranks == 0)
      result.push_back(ranks);
  };
  for (const LinkLevel &level : cluster.levels)
    add(level.size % beside == 0 ? level.size / beside : 0);
  int64_t node = cluster.levels.empty() ? 0 : cluster.levels.front().size;
  for (int64_t size = node; size > 0 && size < degrees.dp * beside; size *= 4)
    add(size % beside == 0 ? size / beside : 0);
  std::sort(result.begin(), result.end(), std::greater<>());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

bool suitsGroups(const Degrees &degrees, int64_t zeroGroup) {
  if (degrees.groups.empty())
    return degrees.dp % zeroGroup == 0;
  return std::all_of(degrees.groups.begin(), degrees.groups.end(), [&](const StageGroup &group) {
    return group.dp <= zeroGroup || group.dp % zeroGroup == 0;
  });
}

std::vector<int64_t> alikeDevices(const Cluster &cluster, int64_t devices) {
  if (cluster.others.empty())
    return {devices};
  NodeGroup last{cluster.device, cluster.devicesPerNode, cluster.nodes, cluster.levels};
  std::erase_if(last.levels, [&](const LinkLevel &level) {
    return level.size == 0 || level.size > cluster.devicesPerNode;
  });
  std::vector<int64_t> runs = {std::min(devices, last.devices())};
  int64_t left = devices - runs.back();
  for (const NodeGroup &group : cluster.others) {
    int64_t count = std::min(left, group.devices());
    bool isAlike = group.device == last.device && group.levels == last.levels &&
                   group.devicesPerNode == last.devicesPerNode;
    if (isAlike)
      runs.back() += count;
    else if (count > 0)
      runs.push_back(count);
    left -= count;
    last = group;
  }
  return runs;
}

} // namespace dtc::plan
