// Products, convolutions and attention, as any library of any target is asked for them.
#pragma once

#include "dtc-rt/Program_generated.h"

#include <cstdint>
#include <vector>

namespace dtc::rt {

using Dims = std::vector<int64_t>;

/// A strided tensor; strides in elements.
struct StridedTensor {
  fbs::DType dtype = fbs::DType::F32;
  Dims shape, strides;
};

/// c = a * b over the last two dimensions; see Matmul and Epilogue in Program.fbs.
struct MatmulCall {
  StridedTensor a, b, c;
  fbs::Epilogue epilogue = fbs::Epilogue::None;
  bool hasMatrix = false;
  bool hasAddend = false;
  bool tf32 = false; ///< as in Program.fbs; of operands in f32
};

/// Whether an epilogue reads a bias or writes sums.
inline bool hasVector(fbs::Epilogue epilogue) {
  return epilogue != fbs::Epilogue::None && epilogue != fbs::Epilogue::Gelu &&
         epilogue != fbs::Epilogue::GeluGrad;
}

/// See Conv in Program.fbs.
struct ConvCall {
  fbs::ConvKind kind = fbs::ConvKind::Forward;
  StridedTensor input, weight, output;
  Dims strides, padLow, padHigh, dilations;
  int64_t groups = 1;
  bool hasAddend = false;
  bool tf32 = false; ///< as in Program.fbs; of operands in f32
};

/// See Attention in Program.fbs.
struct AttentionCall {
  fbs::AttentionKind kind = fbs::AttentionKind::Forward;
  std::vector<StridedTensor> tensors;
  double scale = 1;
  bool causal = false;
  int64_t window = 0;
};

} // namespace dtc::rt
