// One data-parallel rank's share (ShardCosts.h) with the other ranks around it.
#pragma once

#include "dtc/Plan/Search/ShardCosts.h"

namespace dtc::plan {

/// The same parameters: axes shift, gradients pend over dp, ZeRO stores.
Weights amongDataRanks(Weights weights, const Degrees &degrees, const sharding::Mesh &mesh);

} // namespace dtc::plan
