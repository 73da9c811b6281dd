// What the driver says of this machine's GPUs, of which the first stands for all.
#pragma once

#include "dtc-rt/Status.h"

#include <cstdint>
#include <string>

namespace dtc::rt {

struct GpuFacts {
  int count = 0;
  std::string name; ///< "NVIDIA H100 80GB HBM3"
  int major = 0;    ///< of the compute capability
  int multiprocessors = 0;
  uint64_t memoryBytes = 0, freeBytes = 0;
};

/// Exit code 4 where there is no driver or no GPU.
Result<GpuFacts> findGpus();

} // namespace dtc::rt
