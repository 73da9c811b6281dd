// NVIDIA's GPUs as devices. Ranks that are threads of one process have the GPU of their number,
// those that are processes the one of their number on the machine. Kernels are those of a cubin or
// of PTX, products are cuBLASLt's, and ranks exchange data through NCCL.
//
// The driver and the libraries are loaded when they are needed, first from the folder that
// DTC_CUDA_LIBRARY_PATH names. Where one is missing, the error says what to install.
//
// Queues are streams and events are CUDA's events, so issuing returns at once.
#pragma once

#include "dtc-rt/Device.h"
#include "dtc-rt/Program/Manifest.h"

namespace dtc::rt {

/// The platform, once the driver and enough GPUs are known to be there; else exit code 4.
Result<std::unique_ptr<Platform>> openCudaPlatform(const Manifest &manifest, int64_t ranksHere);

std::unique_ptr<Platform> createCudaPlatform();

} // namespace dtc::rt
