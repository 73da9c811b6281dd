// This machine's GPUs, measured by the very calls that a run makes of them.
#pragma once

#include "dtc-rt/Status.h"
#include "dtc/Plan/Plan/Cluster.h"

#include <ostream>

namespace dtc::driver {

/// Of attention there is no rate in a cluster file; the formulas of the planner stand.
struct AttentionRates {
  double forward = 0, backward = 0; ///< flop/s
};

struct MeasuredGpus {
  plan::Cluster cluster;
  AttentionRates attention;
};

/// The cluster of the first GPU's type, with what was measured in the place of the data sheet's
/// figures. Exit code 4 where there is no GPU, or a library is missing.
rt::Result<MeasuredGpus> measureGpus();

} // namespace dtc::driver
