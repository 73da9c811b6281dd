#include "dtc/Plan/Plan/TF32.h"

#include <algorithm>

namespace dtc::plan {

/// Whether it multiplies faster so. Libraries may also multiply in fp32.
static bool useTF32(DeviceSpec &device) {
  const DType half = device.peak.contains(DType::BF16) ? DType::BF16 : DType::F16;
  auto peak = device.peak.find(half), achieved = device.achieved.find(half);
  if (device.architecture == Architecture::Volta || peak == device.peak.end())
    return false;
  const double rate = std::max(peak->second / 2, device.achievedTF32);
  if (rate <= device.peak[DType::F32])
    return false;
  device.peak[DType::F32] = rate;
  if (device.achievedTF32 > 0)
    device.achieved[DType::F32] = device.achievedTF32;
  else if (achieved != device.achieved.end())
    device.achieved[DType::F32] = achieved->second / 2;
  else
    device.achieved.erase(DType::F32);
  return true;
}

Cluster withTF32(Cluster cluster) {
  bool isFaster = useTF32(cluster.device);
  for (NodeGroup &group : cluster.others)
    isFaster |= useTF32(group.device);
  if (isFaster) // measured products are those of the devices in fp32
    std::erase_if(cluster.contractions,
                  [](const MeasuredContraction &row) { return row.type == DType::F32; });
  return cluster;
}

} // namespace dtc::plan
