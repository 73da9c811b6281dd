// Which values exist in memory, and which only within kernels.
#pragma once

#include "dtc/Plan/Plan/Problem.h"

namespace dtc::plan {

/// By value: whether it is stored. Asks the facts for producers, consumers and
/// results alone.
std::vector<bool> findStored(const Problem &problem, const ProblemFacts &facts);

} // namespace dtc::plan
