// Which links pipeline stages send over.
//
// Stages of 6 devices in nodes of 8 straddle the nodes. Device 0 sends to 6 in its own node, but 2
// to 8 in the next one. The stages wait for the slowest.
#pragma once

#include "dtc/Plan/Plan/Cluster.h"
#include "dtc/Plan/Plan/Plan.h"

namespace dtc::plan {

/// Whether all that lies within each axis fills switches, or several fit below one: then
/// all groups of an axis are joined alike.
bool fillsSwitches(const Degrees &degrees, const Cluster &cluster);

/// Of the pairs of devices by which one pipeline rank sends to another one, one that is joined
/// at the highest level.
std::pair<int64_t, int64_t> farthestPair(const Degrees &degrees, const Cluster &cluster,
                                         int64_t from, int64_t to);

} // namespace dtc::plan
