// The functions of a training step, as they are called until the step is cut into stages:
//
//   @forward          the model as it was imported, and all there is where nothing is trained
//   @loss_and_grads   what becomes of it by training: called for each microbatch
//   @prologue         called before the microbatches of a step
//   @update           called after them
//
// How often a function runs is its attribute `dtc.runs`; a name only tells these four apart.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace dtc::graph {

inline constexpr llvm::StringLiteral kForward = "forward", kLossAndGrads = "loss_and_grads",
                                     kPrologue = "prologue", kUpdate = "update";

/// Null where the module has none of this name.
inline mlir::func::FuncOp findFunction(mlir::ModuleOp module, llvm::StringRef name) {
  return module.lookupSymbol<mlir::func::FuncOp>(name);
}

/// What is called for each microbatch: @loss_and_grads, or @forward where nothing is trained. Null
/// where there is neither.
inline mlir::func::FuncOp microbatchFunction(mlir::ModuleOp module) {
  mlir::func::FuncOp trained = findFunction(module, kLossAndGrads);
  return trained ? trained : findFunction(module, kForward);
}

} // namespace dtc::graph
