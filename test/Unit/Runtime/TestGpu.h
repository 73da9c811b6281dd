// The GPU that tests run on: the emulator that is built beside them, unless DTC_CUDA_LIBRARY_PATH
// says where other libraries are.
#pragma once

#include "dtc-rt/CUDA/CudaPlatform.h"

#include <cstdlib>

namespace dtc::rt::test {

/// Why there are not as many GPUs; empty where there are.
inline std::string whyNoGpus(int64_t number = 1) {
  ::setenv("DTC_CUDA_LIBRARY_PATH", DTC_GPU_EMULATOR, /*overwrite=*/0);
  Manifest manifest;
  manifest.worldSize = number;
  auto platform = openCudaPlatform(manifest, manifest.worldSize);
  return platform ? "" : platform.status().message();
}

} // namespace dtc::rt::test
