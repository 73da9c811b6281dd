// Pipelines whose ranks differ: in the type of their devices, where a cluster has
// several, or in their mesh, where a plan says so (Degrees::groups).
//
// Stages of equal size lie one after the other on the devices. Of 8 H100 and 8 A100 in four stages,
// ranks 0 and 1 are on H100, 2 and 3 on A100. Each rank's stages are priced at the rates of its own
// devices (the slowest among them), so that the H100 get more layers. They are held to their
// devices' memory (the smallest among them).
#pragma once

#include "dtc/Plan/Predict/StageCosts.h"

namespace dtc::plan {

struct StageDevices {
  /// `ranks`: the devices of each pipeline rank.
  StageDevices(const Cluster &cluster, std::vector<DeviceRange> ranks, const Degrees &degrees);

  /// Ranks on the same type of device with the same mesh.
  struct RankClass {
    DeviceRange range; ///< of one of them
    size_t group = 0;  ///< of Degrees::groups
  };
  std::vector<DeviceRange> ranks;
  std::vector<RankClass> classes; ///< one where all ranks are alike
  std::vector<int> classOf; ///< by rank
};

/// By pipeline rank, one after the other from the first device on.
std::vector<DeviceRange> neighbouringDevices(const Degrees &degrees);

/// The cluster as if all devices were those of a range.
Cluster clusterOf(const Cluster &cluster, DeviceRange range);

/// A pipeline whose ranks are of several classes.
///
/// Between meshes of 8 and of 4 devices, 8 MB of activations are sent as 1 MB by each of the 8.
/// Each of the 4 receives 2 MB. These 2 MB take the time, on the slower of the two ends' links.
/// What several devices of a mesh need alike is sent to each, whatever Software::scattersSends says
/// of equal meshes.
class MixedStages {
public:
  /// By pipeline rank: what its stages cost, and its devices in `cluster`.
  MixedStages(const Cluster &cluster, std::vector<const StageCosts *> byRank,
              std::vector<DeviceRange> devices)
      : cluster(cluster), byRank(std::move(byRank)), devices(std::move(devices)) {}

  /// As StageCosts::costs.
  simulate::Costs costs(const StageCosts::Runs &stages, const schedule::Placement &placement) const;
  /// To sum up a rank's gradients with the stages that hold copies of its parameters.
  double tiedSeconds(const StageCosts::Runs &stages, const schedule::Placement &placement,
                     int64_t rank) const;

private:
  simulate::Boundary boundary(int unit, size_t from, size_t to) const;
  simulate::Boundary link(size_t from, size_t to) const;

  const Cluster &cluster;
  std::vector<const StageCosts *> byRank;
  std::vector<DeviceRange> devices;
};

} // namespace dtc::plan
