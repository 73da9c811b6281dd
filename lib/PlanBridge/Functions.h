// The functions of a module as the bridge sees them.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

namespace dtc::planbridge {

/// @loss_and_grads, or @forward where nothing is trained; null when neither is
/// there.
mlir::func::FuncOp planned(mlir::ModuleOp module);

/// Its ops in the order in which a problem numbers them.
llvm::SmallVector<mlir::Operation *> plannedOps(mlir::func::FuncOp func);

} // namespace dtc::planbridge
