// A value as a strided part of a contiguous one.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
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

/// Where another value lies if `value` lies at these strides and that offset: the one that it is
/// made of by transposes and reshapes, as far back as nothing else reads what is between. Nothing
/// where no strides say it.
std::optional<StridedView> placeOfSource(mlir::Value value, int64_t offset,
                                         llvm::ArrayRef<int64_t> strides);

/// Erases views that have become strides.
void eraseDeadViews(mlir::func::FuncOp function);

} // namespace dtc::kernels
