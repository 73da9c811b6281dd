// From an estimate to a complete plan.
#pragma once

#include "Estimate.h"

namespace dtc::plan {

struct Realized {
  Problem problem;
  Plan plan;
  Prediction predicted;
  double gap = 0; ///< of the sharding solver
};

/// Solves the sharding with all axes of the mesh, places stages on devices and
/// stores parameters as ZeRO has it. Stage s of pp is on the s-th run of
/// dp * ep * cp * tp devices: tp innermost, pp outermost.
Result<Realized> realize(const Problem &problem, const Cluster &cluster, ShardLibrary &library,
                         const Estimate &estimate, const Workspace *workspace);

} // namespace dtc::plan
