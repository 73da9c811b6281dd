// Which pass of a stage makes what: the function of a stage makes a forward and a backward pass,
// and a schedule may call the gradients of inputs and of weights apart.
//
//     %a = math.tanh %x                                        forward
//     %d = ... %dy, %a {dtc.backward = <0, input_grad>}        input grad
//     %w = dtc.contract %x, %dy {... weight_grad}              weight grad, where they are apart
#pragma once

#include "dtc/Dialect/Dist/Dist.h"

#include "llvm/ADT/DenseMap.h"

#include <string>

namespace dtc::stages {

/// In the order in which a schedule makes them. Where the backward pass isn't split, all of it is
/// kInputGradPass.
enum StagePass : int { kForwardPass, kInputGradPass, kWeightGradPass, kNumPasses };

class PassesOfOps {
public:
  explicit PassesOfOps(mlir::func::FuncOp joint) : joint(joint) {}

  /// Fails where a message would leave with an earlier pass than the one that makes it.
  mlir::LogicalResult find(bool splitBackward);

  StagePass passOf(mlir::Operation *op) const { return passes.lookup(op); }
  StagePass passOf(mlir::Value value) const;
  /// The results of the function that a pass returns.
  llvm::ArrayRef<unsigned> resultsOf(StagePass pass) const { return results[pass]; }
  /// What the next stage of the same rank takes from the slot, with the name of its role. Later
  /// passes read it there, too.
  const llvm::DenseMap<mlir::Value, std::string> &handedOver() const { return named; }

private:
  mlir::Operation *terminator() { return joint.front().getTerminator(); }
  void findBackward();
  llvm::DenseSet<mlir::Operation *> findRecomputed();
  void findWeightGrads();
  mlir::LogicalResult placeResults();

  mlir::func::FuncOp joint;
  llvm::DenseMap<mlir::Operation *, StagePass> passes;
  llvm::SmallVector<unsigned> results[kNumPasses];
  llvm::DenseMap<mlir::Value, std::string> named;
};

} // namespace dtc::stages
