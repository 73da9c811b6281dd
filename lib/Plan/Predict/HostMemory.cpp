#include "dtc/Plan/Predict/HostMemory.h"

#include "dtc/Plan/Predict/StageDevices.h"

#include <algorithm>

namespace dtc::plan {

/// By device, as the plan's order places it.
static std::vector<int64_t> pipelineRanks(const Degrees &degrees) {
  std::vector<int64_t> result;
  if (!degrees.groups.empty()) {
    std::vector<DeviceRange> ranges = neighbouringDevices(degrees);
    for (size_t rank = 0; rank < ranges.size(); ++rank)
      result.insert(result.end(), ranges[rank].count, static_cast<int64_t>(rank));
    return result;
  }
  const int64_t stride = stridesOf(degrees)[static_cast<size_t>(Axis::PP)];
  for (int64_t device = 0; device < degrees.devices(); ++device)
    result.push_back(device / stride % degrees.pp);
  return result;
}

/// A host whose memory isn't known counts as empty.
static double filled(const HostUse &use) {
  return use.isKnown() ? use.bytes / use.capacity : 0;
}

HostUse fullestHost(const Cluster &cluster, const Degrees &degrees,
                    const std::vector<double> &bytes) {
  const std::vector<int64_t> ranks = pipelineRanks(degrees);
  const auto devices = static_cast<int64_t>(ranks.size());
  HostUse fullest;
  int64_t node = 0, next = 0, unknown = 0;
  auto addNodes = [&](int64_t size, int64_t count, double capacity) {
    for (int64_t end = node + count; node < end && next < devices; ++node) {
      HostUse use{node, 0, 0, capacity};
      for (; use.ranks < size && next < devices; ++use.ranks)
        use.bytes += bytes[ranks[next++]];
      unknown += !use.isKnown();
      if (fullest.node < 0 || filled(use) > filled(fullest))
        fullest = use;
    }
  };
  // Of a machine whose processors are the devices, the host's memory is what they share.
  double ofHost = cluster.sharedMemory ? cluster.device.memoryBytes : cluster.hostMemoryBytes;
  addNodes(cluster.devicesPerNode > 0 ? cluster.devicesPerNode : devices,
           cluster.others.empty() ? devices : cluster.nodes, ofHost);
  for (const NodeGroup &group : cluster.others)
    addNodes(group.devicesPerNode, group.nodes, group.hostMemoryBytes);
  fullest.unknown = unknown;
  return fullest;
}

} // namespace dtc::plan
