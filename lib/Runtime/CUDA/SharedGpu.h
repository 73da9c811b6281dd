// Collectives of ranks that share one GPU, behind NCCL's functions: NCCL takes one rank a GPU.
//
// For tests on a machine with a single GPU (DTC_SHARE_GPU=1). Ranks are threads of one process.
// Each has a slot in the GPU's memory, through which all that it gives passes in pieces, and a
// word for each reader that says whether the slot is empty or full. Streams wait for words and
// write them, so that nothing waits on the host, and a step can be recorded as a graph:
//
//   rank 0                                      rank 1
//   wait until slot 0 is empty for 1            wait until slot 1 is empty for 0
//   copy a piece into slot 0                    copy a piece into slot 1
//   slot 0 is full for 1                        slot 1 is full for 0
//   wait until slot 1 is full for 0             wait until slot 0 is full for 1
//   target = slot 0 + slot 1                    target = slot 0 + slot 1
//   slot 1 is empty for 0                       slot 0 is empty for 1
//
// Reductions add in the order of ranks, in fp32 where elements are halves.
#pragma once

#include "Libraries.h"

namespace dtc::rt::cuda {

/// Whether DTC_SHARE_GPU asks for it.
bool sharesGpu();

/// Of a GPU, at most; a stream has one, alone or with others.
inline constexpr int kHardwareQueues = 32;

/// Says to the driver, before it is loaded, what streams that wait for each other need.
void prepareToShareGpu();

/// NCCL's functions as far as the runtime uses them.
Nccl sharedGpuCalls(const Driver &driver);

} // namespace dtc::rt::cuda
