// What the passes of a stage need of each other. Of
//
//     forward    %a = math.tanh %h     %s = arith.mulf %a, %scale
//     backward   reads %a, and %s in a kernel
//
// the forward pass keeps %a, and the backward pass takes it and makes %s again, where it reads it.
// What is kept lies in a slot for each microbatch that is under way.
#pragma once

#include "PassesOfOps.h"

#include "llvm/ADT/SetVector.h"

namespace dtc::stages {

/// By pass.
struct PassNeeds {
  llvm::SetVector<mlir::Value> arguments[kNumPasses]; ///< of the stage's function
  llvm::SetVector<mlir::Value> taken[kNumPasses];     ///< which an earlier pass has kept
  llvm::SetVector<mlir::Value> kept[kNumPasses];      ///< for later passes
  llvm::SetVector<mlir::Operation *> remade[kNumPasses];
  llvm::DenseMap<mlir::Value, std::string> keptNames; ///< of the roles of what is kept
};

PassNeeds findNeeds(mlir::func::FuncOp joint, const PassesOfOps &passes);

} // namespace dtc::stages
