// Types of elements, and reductions over ranks in the order of the ranks.
#pragma once

#include "dtc-cuda/Nccl.h"

#include <string>
#include <vector>

namespace dtc::emulator {

unsigned bytesOf(cuda::ncclDataType_t type);
std::string nameOf(cuda::ncclDataType_t type);

/// The bytes of the results of `count` elements of each rank. Halves are summed in 32 bits and
/// rounded once.
std::vector<std::byte> reduce(const std::vector<const std::byte *> &inputs, size_t count,
                              cuda::ncclDataType_t type, cuda::ncclRedOp_t operation);

} // namespace dtc::emulator
