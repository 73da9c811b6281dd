// The functions of a module as the bridge sees them.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include "llvm/ADT/DenseMap.h"

namespace dtc::planbridge {

/// @loss_and_grads, or @forward where nothing is trained; null when neither is
/// there.
mlir::func::FuncOp planned(mlir::ModuleOp module);

/// Its ops in the order in which a problem numbers them.
llvm::SmallVector<mlir::Operation *> plannedOps(mlir::func::FuncOp func);

/// By ops of one name with equal properties and types, as each layer of a deep model has them:
/// whatever follows from these alone, rules, work and workspace, is found once for all of them.
struct AlikeOps : llvm::DenseMapInfo<mlir::Operation *> {
  static unsigned getHashValue(mlir::Operation *op);
  static bool isEqual(mlir::Operation *a, mlir::Operation *b);
};

} // namespace dtc::planbridge
