// The independent check of a plan: shares no code with the planners.
#pragma once

#include "dtc/Plan/Plan/Cluster.h"
#include "dtc/Plan/Plan/Plan.h"

namespace dtc::plan {

struct Violation {
  std::string message; ///< one line, the offending value last
  OpId op = -1;        ///< that it concerns, or -1
};

/// Everything that is wrong with a plan; empty when it can be carried out. Degrees and mesh must
/// agree, and be as many devices as the stages name. Every op's sharding must be legal. Every value
/// can be brought from how it is produced to how it is read. Arguments, gradients and aliases of a
/// parameter agree.
std::vector<Violation> verify(const Problem &problem, const Plan &plan, const Cluster &cluster);

} // namespace dtc::plan
