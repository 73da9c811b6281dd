// Kernels that reduce what several ranks have in the memory of one GPU.
//
//   target[i] = slot 0[i] + slot 1[i] + ...     in the order of the slots, a stride apart
//
// They are PTX, which the driver compiles. Halves are added in fp32 and rounded once.
#pragma once

#include "Libraries.h"

#include <map>

namespace dtc::rt::cuda {

class ReductionKernels {
public:
  static Result<std::unique_ptr<ReductionKernels>> load(const Driver &driver);
  ~ReductionKernels();
  ReductionKernels(const ReductionKernels &) = delete;
  ReductionKernels &operator=(const ReductionKernels &) = delete;

  Status launch(ncclDataType_t type, ncclRedOp_t operation, CUdeviceptr target, CUdeviceptr slots,
                uint64_t stride, uint64_t numSlots, uint64_t count, CUstream stream) const;

private:
  explicit ReductionKernels(const Driver &driver) : driver(driver) {}

  const Driver &driver;
  CUmodule module = nullptr;
  std::map<std::pair<ncclDataType_t, ncclRedOp_t>, CUfunction> kernels;
};

/// Of one element.
uint64_t bytesOf(ncclDataType_t type);
/// The source of all kernels.
std::string reductionSource();

} // namespace dtc::rt::cuda
