// The function of a module that is planned, as the bridge sees it.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Dialect/Graph/StepFunctions.h"

namespace dtc::planbridge {

/// The ops of the planned function in the order in which a problem numbers them.
llvm::SmallVector<mlir::Operation *> plannedOps(mlir::func::FuncOp func);

} // namespace dtc::planbridge
