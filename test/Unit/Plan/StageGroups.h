// Plans whose stages have meshes of their own, and clusters for them.
#pragma once

#include "Transformer.h"

namespace dtc::plan::testing {

inline Degrees grouped(std::vector<StageGroup> groups, int64_t batch, int zero = 0) {
  Degrees degrees;
  degrees.dp = groups[0].dp;
  degrees.tp = groups[0].tp;
  degrees.microBatch = groups[0].microBatch;
  degrees.pp = 0;
  for (const StageGroup &group : groups)
    degrees.pp += group.pp;
  degrees.zero = zero;
  degrees.numMicrobatches = batch / (degrees.dp * degrees.microBatch);
  degrees.groups = std::move(groups);
  return degrees;
}

/// Nodes of 4 H100 and of 4 L40S without NVLink, so many of each.
inline Cluster mixed(int64_t linked, int64_t others) {
  return clusterOf({"node: dgx-h100, devices_per_node: 4, nodes: " + std::to_string(linked),
                    "node: l40s, devices_per_node: 4, nodes: " + std::to_string(others)});
}

} // namespace dtc::plan::testing
