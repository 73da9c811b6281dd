// Types of elements, and reductions over ranks in the order of the ranks.
#pragma once

#include "dtc-cuda/Nccl.h"

#include <string>
#include <vector>

namespace dtc::emulator {

unsigned bytesOf(cuda::ncclDataType_t type);
std::string nameOf(cuda::ncclDataType_t type);
std::string nameOf(cuda::ncclRedOp_t operation);

/// `count` elements of each rank.
struct ReductionOf {
  std::vector<const std::byte *> inputs;
  size_t count;
  cuda::ncclDataType_t type;
  cuda::ncclRedOp_t operation;
};

/// The bytes of the results. Halves are summed in 32 bits and rounded once. Throws a Fault for an
/// operation that the emulator lacks.
std::vector<std::byte> reduce(const ReductionOf &of);

} // namespace dtc::emulator
