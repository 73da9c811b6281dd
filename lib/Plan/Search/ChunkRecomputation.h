// Which blocks ranks with several chunks recompute.
//
// Chunks share their rank's memory, and a chunk that is computed earlier keeps more microbatches at
// once. Two ranks with two chunks of two blocks, a block taking 1 GB of each microbatch: rank 0
// holds 4 microbatches of its first chunk and 2 of its second one, 12 GB together. With room for
// 9 GB the first block of the first chunk is recomputed, 12 - 4, and that is enough; were each chunk
// held to half of the room, it would be both of the first chunk and none of the second.
#pragma once

#include "dtc/Plan/Predict/StageCosts.h"
#include "dtc/Schedule/Schedule.h"

#include <functional>

namespace dtc::plan {

/// By rank, whether it can hold what these runs keep.
using RanksFit = std::function<std::vector<bool>(const StageCosts::Runs &)>;

/// Sets up to where each run recomputes, so that each rank recomputes as few blocks as `fits` asks
/// for: those of the chunk of which it holds most microbatches first, of a chunk from its first on.
/// `ends`: by run where its blocks end. False, where all of them aren't enough.
bool recomputeFewest(const schedule::Schedule &schedule,
                     const std::vector<std::vector<int>> &ends, const RanksFit &fits,
                     StageCosts::Runs &runs);

} // namespace dtc::plan
