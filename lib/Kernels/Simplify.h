// Rewrites before kernels are formed.
#pragma once

#include "dtc/Target/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::kernels {

/// Whether elements have half precision. Sums by index and of windows are then made in f32.
bool isHalf(mlir::Type type);

/// Folds, merges duplicates, and rewrites what kernels can't do well. Sums of disjoint pads become
/// concatenations. Whole reductions go by rows first, those of few columns by slices of rows first.
/// Transposes go into contractions. Half precision scatter_add and max_pool_grad are computed in
/// f32. The function has one block.
mlir::LogicalResult simplify(mlir::func::FuncOp func, const target::KernelLimits &limits = {});

} // namespace dtc::kernels
