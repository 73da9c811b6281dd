// A value as a strided part of a contiguous one.
#pragma once

#include "dtc/Sharding/Strides.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::kernels {

/// Element [i...] of the value is element `offset + sum i * strides` of `base`,
/// which is contiguous. Stride 0 repeats.
struct StridedView : sharding::Strided {
  mlir::Value base;
};

/// The value as it lies in memory of its own.
StridedView denseView(mlir::Value value);

/// The value seen through the slices, transposes, reshapes and broadcasts that
/// make it, as far back as strides can express them.
StridedView traceView(mlir::Value value);

/// Where another value lies if this one lies at that place: the one that it is made of by
/// transposes and reshapes, as far back as nothing else reads what is between. Nothing where no
/// strides say it.
std::optional<StridedView> placeOfSource(mlir::Value value, const sharding::Strided &place);

/// Erases views that have become strides.
void eraseDeadViews(mlir::func::FuncOp function);

} // namespace dtc::kernels
