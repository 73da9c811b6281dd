// Ops that differ in their operands alone.
#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

namespace dtc::graph {

/// Compares ops by name, properties and types, which are the same in each layer of a deep model.
/// What follows from these alone (rules, work and workspace) is found once for all of them.
struct AlikeOps : llvm::DenseMapInfo<mlir::Operation *> {
  static unsigned getHashValue(mlir::Operation *op);
  static bool isEqual(mlir::Operation *a, mlir::Operation *b);
};

} // namespace dtc::graph
