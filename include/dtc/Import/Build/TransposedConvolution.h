// Transposed convolution: a convolution of the input with zeros between its elements.
//
// With a stride of 2 and a kernel of 3, without padding:
//
//     x      a b            w      p q r
//     spread 0 0 a 0 b 0 0  turned r q p
//     result ap aq ar+bp bq br
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

/// One spatial dimension. `low` and `high` are taken off the result's ends, and `extra` elements
/// are added behind.
struct TransposedDim {
  int64_t size, kernel, stride, dilation, low, high, extra;
};

/// A diagnostic where sizes make no sense. To be called for each dimension before it is used.
llvm::LogicalResult checkTransposed(Conversion &node, const TransposedDim &dim);
/// x [batch, channel, spatial...], weight [channel, out / groups, kernel...].
llvm::LogicalResult checkTransposed(Conversion &node, const Tensor &x, const Tensor &weight,
                                    int64_t groups);

/// Of operands that were checked. The bias may be null.
llvm::FailureOr<Tensor> convolveTransposed(Conversion &node, const Tensor &x, const Tensor &weight,
                                           const Tensor *bias, llvm::ArrayRef<TransposedDim> dims,
                                           int64_t groups);

/// A tensor among zeros: `interior` between its elements, and `low` before them.
mlir::Value spreadOut(Emitter &emit, mlir::Value x, llvm::ArrayRef<int64_t> shape,
                      llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> interior);

} // namespace dtc::import
