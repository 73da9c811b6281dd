// What plans keep in the memory of hosts: the states of optimizers, where they are offloaded.
//
// All ranks of a node share its host. Take 16 devices in two nodes of 8 and two stages, whose
// states are 200 and 230 GB a rank. Node 0 has 1.6 TB and node 1 has 1.84 TB. With pp=2 as the
// innermost axis each has four ranks of either stage, 1.72 TB.
#pragma once

#include "dtc/Plan/Predict/Prediction.h"

namespace dtc::plan {

/// Of the node that fills its host most. `bytes`: of one device, by pipeline rank.
HostUse fullestHost(const Cluster &cluster, const Degrees &degrees,
                    const std::vector<double> &bytes);

} // namespace dtc::plan
