// Which blocks ranks with several chunks recompute.
//
// Chunks share their rank's memory, and a chunk that is computed earlier keeps more microbatches at
// once. Take two ranks with two chunks of two blocks, a block taking 1 GB of each microbatch. Rank
// 0 holds 4 microbatches of its first chunk and 2 of its second one, 12 GB together. With room for
// 9 GB the first block of the first chunk is recomputed, which leaves 8 GB. Were each chunk held to
// half of the room, both blocks of the first chunk would be.
#pragma once

#include "dtc/Plan/Predict/StageCosts.h"
#include "dtc/Schedule/Schedule.h"

#include <functional>

namespace dtc::plan {

/// By rank, whether it can hold what these runs keep.
using RanksFit = std::function<std::vector<bool>(const StageCosts::Runs &)>;

/// Sets up to where each run recomputes, so that each rank recomputes as few blocks as `fits` asks
/// for. Those of the chunk come first of which it holds most microbatches, and of a chunk its first
/// ones. `ends`: by run where its blocks end. False, where all of them aren't enough.
bool recomputeFewest(const schedule::Schedule &schedule,
                     const std::vector<std::vector<int>> &ends, const RanksFit &fits,
                     StageCosts::Runs &runs);

} // namespace dtc::plan
