// In which form a program computes attention: in one kernel, which keeps no scores, or as products
// and a softmax, whose scores pass through memory.
//
// Other software has kernels of one version for all attention, or none
// (Software::flashAttention). dtc's own programs for GPUs call a library where it takes an
// attention as it is:
//
//   bf16, heads of 64           one kernel
//   fp32                        products and a softmax (Op::decomposed)
//   bf16, keys gathered by cp   products and a softmax
//
// Under context parallelism a rank's queries begin somewhere within the keys it gathers. No
// library's causal mask does.
#pragma once

#include "dtc/Plan/Cost/CostModel.h"

namespace dtc::plan {

/// The newest version of attention in one kernel.
inline constexpr int kNewestAttention = 3;

/// Whether the program is dtc's own, for GPUs.
inline bool isOwnProgram(const DeviceSpec &device, const Software &software) {
  return device.multiprocessors > 0 && software == Software();
}

/// Whether attention is computed as in dtc's own programs for GPUs.
inline bool isOwnAttention(const DeviceSpec &device, const Software &software) {
  return device.multiprocessors > 0 && !software.flashAttention;
}

/// Whether this is attention whose queries begin somewhere within its keys.
inline bool isGathered(const LocalWork &work) {
  return work.attention && work.causal && work.m < work.n;
}

/// Whether dtc's own program computes this attention as products and a softmax.
inline bool isOwnDecomposed(const DeviceSpec &device, const Software &software,
                            const LocalWork &work) {
  return isOwnAttention(device, software) && work.attention &&
         (work.decomposed || isGathered(work));
}

/// Of any software on GPUs.
inline bool isOneKernel(const DeviceSpec &device, const Software &software, const LocalWork &work) {
  return software.flashAttention ? *software.flashAttention > 0
                                 : !isOwnDecomposed(device, software, work);
}

} // namespace dtc::plan
