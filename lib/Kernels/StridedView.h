// A value as a strided part of a contiguous one.
#pragma once

#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace dtc::kernels {

/// Element [i...] of the value is element `offset + sum i * strides` of `base`,
/// which is contiguous. Stride 0 repeats.
struct StridedView {
  mlir::Value base;
  int64_t offset = 0;
  llvm::SmallVector<int64_t> strides; ///< one per dimension of the value
};

/// The value as it lies in memory of its own.
StridedView denseView(mlir::Value value);

/// The value seen through the slices, transposes, reshapes and broadcasts that
/// make it, as far back as strides can express them.
StridedView traceView(mlir::Value value);

} // namespace dtc::kernels
