// The processor of this machine as a cluster: measured once, and kept in a file.
#pragma once

#include "dtc/Driver/Outcome.h"
#include "dtc/Plan/Plan/Cluster.h"

namespace dtc::driver {

/// By the very primitives that a run uses; some seconds.
plan::Cluster measureMachine();

/// What is known of this machine: the measured figures of
///
///     $XDG_CACHE_HOME/dtc/cpu-MODEL-CORES.yaml    (or ~/.cache/dtc/...)
///
/// or, without that file, those of a usual processor. `measures`: makes the file first. The
/// variable DTC_CALIBRATION is the name of another file, or `off`: nothing is read or measured.
Outcome<plan::Cluster> ownCluster(bool measures);

} // namespace dtc::driver
