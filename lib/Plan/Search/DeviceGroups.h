// Which devices of a cluster are alike, and which data-parallel ranks may share storage.
#pragma once

#include "dtc/Plan/Search/Search.h"

namespace dtc::plan {

/// The first `devices` of a cluster in runs of the same type, joined alike. Of two nodes of 8 H100
/// and one of 8 A100 these are {16, 8}.
std::vector<int64_t> alikeDevices(const Cluster &cluster, int64_t devices);

/// How many data-parallel ranks may share ZeRO's storage (hybrid sharding: every group of them
/// holds all of it), beside all of them; descending. Groups fill a node, or another level of links,
/// or a number of nodes that is a power of four. With dp=64 and tp=2 in nodes of 8 they are 16 and
/// 4.
std::vector<int64_t> zeroGroups(const Degrees &degrees, const Cluster &cluster);

/// Whether the data-parallel ranks are a multiple of so many; those of a stage group may also
/// be fewer.
bool suitsGroups(const Degrees &degrees, int64_t zeroGroup);

} // namespace dtc::plan
