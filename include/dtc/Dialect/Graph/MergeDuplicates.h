// Common subexpressions of straight-line functions.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::graph {

/// Of ops that compute the same from the same operands keeps the first, and erases those that
/// nothing needs. For functions of one block. `onErase` is told of each that goes.
void mergeDuplicates(mlir::func::FuncOp func,
                     llvm::function_ref<void(mlir::Operation *)> onErase = {});

} // namespace dtc::graph
