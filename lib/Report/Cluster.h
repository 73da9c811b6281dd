// Who holds what: the devices of a cluster by node, alike nodes folded.
//
// Nodes are alike when their devices, in order, differ in nothing but which
// data-parallel copy they are. 16 nodes of 8 under dp=16 tp=8 are one picture:
//
//   nodes 0-15 (16 alike)   [tp 0][tp 1][tp 2][tp 3][tp 4][tp 5][tp 6][tp 7]
#pragma once

#include "dtc/Report/PlanFacts.h"

namespace dtc::report {

/// What a device does under a plan.
struct DeviceRole {
  int64_t pipelineRank = -1; ///< -1: nothing
  int64_t meshRank = -1;     ///< within the stage's mesh
  bool operator==(const DeviceRole &) const = default;
};
/// Of the stage that it runs.
const sharding::Mesh &meshOf(const plan::Plan &plan, const DeviceRole &role);
std::vector<DeviceRole> rolesOf(const plan::Plan &plan, int64_t devices);

/// Nodes that are alike.
struct AlikeNodes {
  std::vector<int64_t> nodes;
  std::vector<int64_t> firstDevices; ///< of each
  int64_t devices = 0;               ///< of one
  bool operator==(const AlikeNodes &) const = default;
};
std::vector<AlikeNodes> foldNodes(const plan::Cluster &cluster, const plan::Plan &plan,
                                  int64_t devices);

/// A degree of parallelism and the links that its groups talk over.
struct DegreeLink {
  std::string degree;
  int64_t size = 1;
  std::string ranks; ///< "pipeline ranks 0-1"; empty: all
  int64_t device = 0; ///< of the group whose way is longest
  int level = 0;      ///< index in Cluster::levelsAt(device)
};
std::vector<DegreeLink> linksOf(const plan::Cluster &cluster, const plan::Plan &plan);

/// "0-15", "0, 2, 4 and 13 more".
std::string numbersText(const std::vector<int64_t> &numbers);

} // namespace dtc::report
