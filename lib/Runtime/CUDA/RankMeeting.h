// What the ranks of a world settle between preparing their operations and issuing the first.
#pragma once

#include "ProductTuner.h"

namespace dtc::rt::cuda {

/// Makes the communicators of all groups, and chooses the algorithms of products. Called by all
/// ranks. `tuner` is null where the heuristic's choices stand.
Status meetRanks(Communicator &communicator, RankProgress &progress, ProductTuner *tuner);

} // namespace dtc::rt::cuda
