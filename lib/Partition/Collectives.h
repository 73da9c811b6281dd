// Merging of collectives in local functions.
#pragma once

#include "dtc/Dialect/Dist/Dist.h"

namespace dtc::partition {

/// An all-reduce of which every rank keeps only a part becomes a reduce-scatter.
mlir::LogicalResult fuseScatters(mlir::ModuleOp module);

/// Packs all-reduces of the same axes, kind and element type into one, as far as
/// none of their results is needed before the last operand is there, in calls
/// of about `bytes`.
void bucketAllReduces(mlir::func::FuncOp func, int64_t bytes);

} // namespace dtc::partition
