// Samples of different lengths, each with its elements in reverse.
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

/// Of each sample along `batch`, the first `lengths` elements along `time` in reverse; those behind
/// them stay.
llvm::FailureOr<Tensor> reverseSequence(Conversion &node, const Tensor &tensor, int64_t time,
                                        int64_t batch, llvm::ArrayRef<int64_t> lengths);

} // namespace dtc::import
