// Reductions of tensors that are constants or values of the graph alike, and softmax.
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

/// `op` is "ReduceSum", "ReduceMean", "ReduceMax", ... as ONNX names it.
llvm::FailureOr<Tensor> reduceTensor(Conversion &node, llvm::StringRef op, const Tensor &tensor,
                                     llvm::ArrayRef<int64_t> axes, bool keepDims);

mlir::Value softmax(Emitter &emit, mlir::Value x, int64_t axis);
mlir::Value logSoftmax(Emitter &emit, mlir::Value x, int64_t axis);

} // namespace dtc::import
