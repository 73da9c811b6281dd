// Scaled dot-product attention of the emulated cuDNN: one operation forward, one backward.
//
// Computed as the true library does: scores and sums in fp32 or better, probabilities and the
// gradients of scores rounded to the operands' type before they are multiplied.
#pragma once

#include "Emulator/Cudnn/Operation.h"

#include <optional>

namespace dtc::emulator {

/// Keeps the scores of keys up to the query's own, or up to i + keys - queries where these
/// numbers are given; others are replaced by `fill`.
struct BandMask {
  std::vector<int64_t> dims; ///< of the scores
  int64_t input = 0, output = 0;
  CudnnTensor fill;
  std::optional<CudnnTensor> keys, queries;
};

struct Attention : CudnnOperation {
  bool isBackward = false;
  CudnnTensor query, key, value, output, stats;          // [b,h,s,e]; stats [b,h,s,1]
  CudnnTensor outputGrad, queryGrad, keyGrad, valueGrad; ///< backward
  std::optional<CudnnTensor> scale;
  std::optional<BandMask> mask;

  /// Throws a Fault where the shapes contradict each other or cuDNN has no engine.
  void check() const;

  std::vector<CudnnTensor> tensors() const override;
  uint64_t workspaceBytes() const override;
  std::string text() const override;
  void checkNumbers(const CudnnCall &call) const override;
  Accesses run(const CudnnCall &call, const DeviceMemory &memory) const override;
};

} // namespace dtc::emulator
