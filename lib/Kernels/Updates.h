// Optimizer updates that become kernels apart from the rest of their function.
//
// Most of a deep model's update function are optimizer ops, one a parameter and alike but for their
// operands. One that reads and writes only what lies in memory anyway would share a kernel with
// nothing else. It stays whole until kernels are formed. Each distinct one is decomposed and
// outlined once, for all parameters that have it:
//
//     %p1, %m1, %v1 = dtc.adam_update %p, %g, %m, %v, ...       580 of them, of three types
//   becomes, by way of a function that holds nothing but one such op,
//     %p1, %m1, %v1 = exec.launch @pointwise_0(%p, %g, %m, %v, ...)
#pragma once

#include "dtc/Target/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace dtc::kernels {

/// Neither part of a kernel nor decomposed to what is: library calls, collectives, returns.
bool staysInFunction(mlir::Operation *op, const target::Target &target);

/// True if `op` is an optimizer update that no other op would share a kernel with, or the commit of
/// one. Its tensors are arguments, results or those of library calls and collectives.
bool standsAlone(mlir::Operation *op, const target::Target &target);

/// An update with the constants that it takes, and the commits and conversions of what it returns.
struct Update {
  explicit Update(mlir::Operation *op);

  llvm::SmallVector<mlir::Operation *> ops; ///< in an order of evaluation
  llvm::SetVector<mlir::Value> inputs;
  llvm::SmallVector<mlir::Value> outputs;

  /// The optimizer op among the ops.
  mlir::Operation *whole() const;
  /// Erases the ops, whose outputs nothing reads any more.
  void erase() const;

private:
  void add(mlir::Operation *op);
};

/// The updates that `func` has and the target doesn't keep whole.
std::vector<Update> updatesOf(mlir::func::FuncOp func, const target::Target &target);

/// A function of its own, in no module, that computes what the update does of the same roles,
/// in primitive ops.
mlir::FailureOr<mlir::OwningOpRef<mlir::func::FuncOp>> decomposeAlone(const Update &update);

/// Puts the body of such a function, outlined by now, in the place of an update like it.
void replace(const Update &update, mlir::func::FuncOp outlined);

} // namespace dtc::kernels
