// Grouped contractions that are matrix products become kernels of their own.
#pragma once

#include "dtc/Target/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::kernels {

/// Makes exec.grouped_matmul of the grouped contractions that the target keeps whole.
void callGroupedProducts(mlir::func::FuncOp function, const target::Target &target);

} // namespace dtc::kernels
