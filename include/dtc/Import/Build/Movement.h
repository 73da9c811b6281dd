// Moving elements of tensors that are constants or values of the graph alike.
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

Tensor reshapeTensor(Conversion &node, const Tensor &tensor, llvm::ArrayRef<int64_t> shape);
Tensor transposeTensor(Conversion &node, const Tensor &tensor, llvm::ArrayRef<int64_t> perm);
/// `shape` is at least the tensor's shape, aligned at the end.
Tensor expandTensor(Conversion &node, const Tensor &tensor, llvm::ArrayRef<int64_t> shape);
/// `stride` may be negative; then elements run down from `offset`.
Tensor sliceTensor(Conversion &node, const Tensor &tensor, int64_t dim, int64_t offset,
                   int64_t size, int64_t stride = 1);
llvm::FailureOr<Tensor> concatTensors(Conversion &node, llvm::ArrayRef<Tensor> parts, int64_t dim);
/// Of each sample along `batch`, the first `lengths` elements along `time` in reverse; those behind
/// them stay.
llvm::FailureOr<Tensor> reverseSequence(Conversion &node, const Tensor &tensor, int64_t time,
                                        int64_t batch, llvm::ArrayRef<int64_t> lengths);

} // namespace dtc::import
