// Which cuts between forward ops are worth considering.
#pragma once

#include "dtc/Plan/Plan/Blocks.h"

namespace dtc::plan {

/// Ascending positions before which the forward ops may be cut, the first 0 and the last one past
/// the end. At least `stages` stages are possible where there are so many ops. Between blocks as a
/// rule; where there are few blocks for the stages, also within, where the least bytes cross.
std::vector<OpId> cutPositions(const Problem &problem, const ProblemFacts &facts,
                               const std::vector<Block> &blocks, int64_t stages);

} // namespace dtc::plan
