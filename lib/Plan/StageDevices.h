// Which pipeline ranks are on devices of which type, where a cluster has several.
//
// Stages of equal size lie one after the other on the devices: of 8 H100 and 8 A100
// in four stages, ranks 0 and 1 are on H100, 2 and 3 on A100. Each rank's
// stages are priced at the rates of its own devices (the slowest among them), so that
// the H100 get more layers, and held to their memory (the smallest among them).
#pragma once

#include "dtc/Plan/CostModel.h"
#include "dtc/Simulate/Simulate.h"

namespace dtc::plan {

struct StageDevices {
  /// `ranks`: the devices of each pipeline rank.
  StageDevices(const Cluster &cluster, const std::vector<DeviceRange> &ranks);

  /// A range for each type; none where all ranks are on the same.
  std::vector<DeviceRange> kinds;
  std::vector<int> kindOf; ///< by rank
};

/// The cluster as if all devices were those of a range.
Cluster clusterOf(const Cluster &cluster, DeviceRange range, int64_t devices);

/// Lets the stages of a pipeline rank cost what they do in `theirs`; the greater
/// slowdown holds for all.
void takeRank(simulate::Costs &costs, const simulate::Costs &theirs, size_t rank);

} // namespace dtc::plan
