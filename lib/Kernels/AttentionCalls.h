// Attention that a library computes, on the tensors that hold its operands.
#pragma once

#include "dtc/Target/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::kernels {

/// Rewrites the function's attention that wasn't decomposed to exec.attention: what the pass of
/// this name does for all functions of a module. Products have been formed.
mlir::LogicalResult callAttention(mlir::func::FuncOp function, const target::Target &target);

} // namespace dtc::kernels
