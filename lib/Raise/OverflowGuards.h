// Clamps that keep f16 from overflowing, which f32 doesn't need.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::raise {

/// For a function that was in f16. Leaves out minima and maxima with a number at the end of f16's
/// range, and what is computed for them alone.
void dropOverflowGuards(mlir::func::FuncOp func);

} // namespace dtc::raise
