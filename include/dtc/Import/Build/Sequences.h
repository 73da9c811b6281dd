// Ranges, and triangles of matrices: what is decided by positions alone.
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

/// start, start + delta, ...: a constant, or an iota where that would be too large. All three have
/// one element.
llvm::FailureOr<Tensor> range(Conversion &node, const HostTensor &start, const HostTensor &limit,
                              const HostTensor &delta);

/// Keeps the upper or lower triangle of the last two dimensions.
llvm::FailureOr<Tensor> triangle(Conversion &node, const Tensor &tensor, bool upper,
                                 int64_t diagonal);

} // namespace dtc::import
