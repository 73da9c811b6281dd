// By how much a step's gradients are too small to be clipped.
//
// An update multiplies its gradients by min(1, max / norm). The gradients of drawn values are often
// small, so that the factor is 1: what is wrong with it, or who doesn't apply it, then isn't seen.
#pragma once

#include "dtc/Interpreter/Tensor.h"

#include "mlir/IR/BuiltinOps.h"

namespace dtc::interpreter {

class Clipping {
public:
  explicit Clipping(mlir::ModuleOp global);
  /// What a value of a function was.
  void see(mlir::Value value, const Tensor &tensor);
  /// A power of two, times which the gradients are clipped; 1 where they are, or never would be.
  double missing() const { return factor; }

private:
  llvm::DenseMap<mlir::Value, double> bounds; ///< of the scalars that an update bounds from above
  double factor = 1;
};

} // namespace dtc::interpreter
