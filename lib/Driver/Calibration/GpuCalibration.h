// This machine's GPUs, measured by the very calls that a run makes of them.
#pragma once

#include "dtc-rt/Status.h"
#include "dtc/Plan/Plan/Cluster.h"

namespace dtc::driver {

/// The cluster of the first GPU's type, with what was measured in the place of the data sheet's
/// figures. Exit code 4 where there is no GPU, or a library is missing.
rt::Result<plan::Cluster> measureGpus();

} // namespace dtc::driver
