// One data-parallel rank's share (ShardCosts.h) with the other ranks around it.
#pragma once

#include "dtc/Plan/Search/ShardCosts.h"

namespace dtc::plan {

/// The same parameters: axes shift, gradients pend over dp, ZeRO stores; by two levels
/// (Storage.h), what a stage has of each it says itself.
Weights amongDataRanks(Weights weights, const Degrees &degrees, const sharding::Mesh &mesh,
                   bool mixesLevels);

/// Groups that sum up single numbers, as scalarSums finds them in the whole plan.
std::vector<sharding::AxisList> sumsAmongDataRanks(const ShardCosts &shard,
                                               const sharding::Mesh &mesh);

} // namespace dtc::plan
