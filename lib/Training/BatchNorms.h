// Batch norms that train, once their gradients are built.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

namespace dtc::training {

/// Replaces them by their parts, forward and backward, so that they are planned as sums over the
/// batch: data-parallel ranks each have a term. Numbers forward ops anew.
llvm::LogicalResult decomposeBatchNorms(mlir::func::FuncOp func);

} // namespace dtc::training
