// Contractions as matrix products.
#pragma once

#include "dtc/Target/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::kernels {

/// Rewrites the function's contractions to exec.matmul, views of their operands to strides: what
/// the pass of this name does for all functions of a module.
mlir::LogicalResult normalizeContractions(mlir::func::FuncOp function,
                                          const target::Target &target);

} // namespace dtc::kernels
