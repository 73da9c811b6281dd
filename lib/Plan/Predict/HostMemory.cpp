#include "dtc/Plan/Predict/HostMemory.h"

#include "dtc/Plan/Predict/StageDevices.h"

#include <algorithm>

namespace dtc::plan {

namespace {

/// Devices beside each other that are on one pipeline rank.
struct DeviceRun {
  int64_t rank = 0, count = 0;
};

} // namespace

/// In the order of the devices, as the plan's order places them.
static std::vector<DeviceRun> deviceRuns(const Degrees &degrees) {
  std::vector<DeviceRun> result;
  if (!degrees.groups.empty()) {
    for (const DeviceRange &range : neighbouringDevices(degrees))
      result.push_back({static_cast<int64_t>(result.size()), range.count});
    return result;
  }
  const int64_t stride = stridesOf(degrees)[static_cast<size_t>(Axis::PP)];
  const int64_t devices = degrees.devices();
  for (int64_t first = 0; first < devices; first += stride)
    result.push_back({first / stride % degrees.pp, stride});
  return result;
}

/// A host whose memory isn't known counts as empty.
static double filled(const HostUse &use) {
  return use.isKnown() ? use.bytes / use.capacity : 0;
}

HostUse fullestHost(const Cluster &cluster, const Degrees &degrees,
                    const std::vector<double> &bytes) {
  std::vector<DeviceRun> runs = deviceRuns(degrees);
  const int64_t devices = degrees.devices();
  HostUse fullest;
  int64_t node = 0, unknown = 0;
  auto next = runs.begin();
  auto addNodes = [&](int64_t size, int64_t count, double capacity) {
    for (int64_t end = node + count; node < end && next != runs.end(); ++node) {
      HostUse use{node, 0, 0, capacity};
      while (use.ranks < size && next != runs.end()) {
        const int64_t taken = std::min(size - use.ranks, next->count);
        use.ranks += taken;
        use.bytes += double(taken) * bytes[next->rank];
        next->count -= taken;
        if (next->count == 0)
          ++next;
      }
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
