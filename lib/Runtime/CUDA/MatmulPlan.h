// How a strided product becomes calls of cuBLASLt.
//
// cuBLASLt multiplies column-major matrices and takes one batch dimension. A row-major matrix
// is its transpose in column-major order, so a row-major product is asked for as
//
//   c = a * b     ->     c^T = b^T * a^T      rows and columns change places, nothing moves
//
//   a 4x2x3 strides 6,3,1   b 1x3x5 strides 15,5,1   c 4x2x5
//     b is repeated and a, c are dense, so the batch joins m: one product, m = 8, n = 5, k = 3
//
// Batch dimensions that can't be joined with m or with each other are left to several calls.
#pragma once

#include "dtc-rt/Program/TensorCalls.h"
#include "dtc-rt/Status.h"

#include <array>

namespace dtc::rt::cuda {

/// A column-major matrix in memory, and the step to that of the next product of a batch.
struct MatrixPlan {
  uint64_t rows = 1, cols = 1;
  int64_t ld = 1, batchStride = 0; ///< in elements
  bool isTransposed = false;
};

struct MatmulPlan {
  bool isSwapped = false; ///< the first operand of cuBLASLt is b
  MatrixPlan first, second, result;
  int32_t batchCount = 1;
  /// Elements to skip in a, b and c, for each call.
  std::vector<std::array<int64_t, 3>> calls;
};

/// Refuses strides that cuBLASLt can't take; nothing is computed where c is empty.
Result<MatmulPlan> planMatmul(const MatmulCall &call);

} // namespace dtc::rt::cuda
