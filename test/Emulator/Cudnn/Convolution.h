// Computes convolutions on emulated memory.
#pragma once

#include "Emulator/Cudnn/Operation.h"

namespace dtc::emulator {

enum class ConvKind { Forward, BackwardData, BackwardFilter };

struct Convolution : CudnnOperation {
  ConvKind kind = ConvKind::Forward;
  CudnnTensor input, weight, output;
  std::vector<int64_t> strides, pre, post, dilations;
  double alpha = 1, beta = 0;

  const CudnnTensor &result() const;
  /// Throws a Fault where the shapes contradict each other or the emulator lacks something.
  void check() const;

  std::vector<CudnnTensor> tensors() const override { return {input, weight, output}; }
  uint64_t workspaceBytes() const override;
  std::string text() const override;
  Accesses run(const CudnnCall &call, const DeviceMemory &memory) const override;
};

} // namespace dtc::emulator
