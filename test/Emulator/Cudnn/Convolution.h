// Computes convolutions on emulated memory.
#pragma once

#include "Emulator/Device/AccessHistory.h"
#include "Emulator/Device/FloatElements.h"

#include <cstdint>
#include <string>

namespace dtc::emulator {

class DeviceMemory;

struct ConvTensor {
  FloatKind kind = FloatKind::F32;
  std::vector<int64_t> dims, strides; // in elements
  int64_t alignment = 1, id = 0;

  int64_t elements() const;
  /// Bytes from the first element to the end of the last one.
  uint64_t extent() const;
  std::string text() const;
};

enum class ConvKind { Forward, BackwardData, BackwardFilter };

struct Convolution {
  ConvKind kind = ConvKind::Forward;
  ConvTensor input, weight, output;
  std::vector<int64_t> strides, pre, post, dilations;
  bool isDouble = false;
  double alpha = 1, beta = 0;

  const ConvTensor &result() const;
  /// Throws a Fault where the shapes contradict each other or the emulator lacks something.
  void check() const;
};

/// A call on addresses.
struct ConvCall {
  Convolution convolution;
  bool roundsToTF32 = false;
  uint64_t input, weight, output, workspace, workspaceBytes;
};

/// Computes the result, overwrites the workspace, and says what was read and written.
Accesses runConvolution(const ConvCall &call, const DeviceMemory &memory);

} // namespace dtc::emulator
