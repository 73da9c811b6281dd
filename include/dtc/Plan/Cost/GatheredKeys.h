// Attention that sees gathered keys in dtc's own programs for GPUs.
//
// Under context parallelism a rank's queries begin somewhere within the keys. No library's causal
// mask does, so that such attention is products and kernels, with the scores of all keys. Programs
// of other software than dtc's have kernels for it, and are priced with these.
#pragma once

#include "dtc/Plan/Cost/CostModel.h"

namespace dtc::plan {

/// Whether a program would compute other attention in one kernel, and this not: one of dtc's own.
inline bool takesGatheredApart(const DeviceSpec &device, const Software &software) {
  return device.multiprocessors > 0 && software == Software();
}

/// Whether this is such attention.
inline bool isGathered(const LocalWork &work) {
  return work.attention && work.causal && work.m < work.n;
}

} // namespace dtc::plan
