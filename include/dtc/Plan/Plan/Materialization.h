// Which values exist in memory, and which only within kernels.
#pragma once

#include "dtc/Plan/Plan/Problem.h"

#include <span>

namespace dtc::plan {

/// How grouped products find the rows that they read: put in order before, or where they are. Their
/// kernels then compute short arithmetic on one large tensor for each row that they read.
enum class ExpertRows : uint8_t { InOrder, InPlace };

/// By value: whether it is stored. Asks the facts for producers, consumers and results alone.
/// `anyway`: values that are stored whatever reads them, as messages are.
std::vector<bool> findStored(const Problem &problem, const ProblemFacts &facts,
                             ExpertRows rows = ExpertRows::InOrder,
                             std::span<const ValueId> anyway = {});

} // namespace dtc::plan
