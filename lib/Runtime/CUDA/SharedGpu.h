// Collectives of ranks that share one GPU, behind NCCL's functions: NCCL takes one rank a GPU.
//
// For tests on a machine with a single GPU (DTC_SHARE_GPU=1). Ranks are threads of one process.
// Each has a slot in the GPU's memory, through which all that it gives passes in pieces. A word for
// each reader says whether the slot is empty or full. Nothing waits on the GPU: who issues a rank's
// work waits for words on the host, and all work lies on one stream (SharedTurn.h):
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

/// NCCL's functions as far as the runtime uses them.
Nccl sharedGpuCalls(const Driver &driver);

} // namespace dtc::rt::cuda
