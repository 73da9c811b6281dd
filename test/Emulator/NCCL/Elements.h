// Types of elements, and reductions over ranks in the order of the ranks.
#pragma once

#include "dtc-cuda/Nccl.h"

#include <string>
#include <vector>

namespace dtc::emulator {

unsigned bytesOf(cuda::ncclDataType_t type);
std::string nameOf(cuda::ncclDataType_t type);
std::string nameOf(cuda::ncclRedOp_t operation);

/// Reduces `count` elements of each input into bytes of the same type. Halves are summed in 32 bits
/// and rounded once. Throws a Fault where the operation isn't one of NCCL's.
std::vector<std::byte> reduce(const std::vector<const std::byte *> &inputs, size_t count,
                              cuda::ncclDataType_t type, cuda::ncclRedOp_t operation);

} // namespace dtc::emulator
