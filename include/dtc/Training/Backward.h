// Reverse-mode differentiation of a phase function's body.
//
// Every forward op is numbered (`dtc.id`). Walking backwards, each op that lies
// between a wanted argument and the start builds its gradient ops at the end of
// the block. They carry the number of their forward op and what they compute:
//
//   %y = dtc.contract %x, %w       {dtc.id = 7}
//   ...
//   %dx = dtc.contract %dy, %w     {dtc.backward = #dtc.backward<7, input_grad>}
//   %dw = dtc.contract %x, %dy     {dtc.backward = #dtc.backward<7, weight_grad>}
//
// weight_grad is all that leads to gradients of parameters alone, so that a
// schedule may put it off; accumulate joins the gradients of one value.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include "llvm/ADT/DenseSet.h"

namespace dtc::training {

/// Numbers the ops of the block in order, from 0.
void numberForwardOps(mlir::Block &block);

class Backward {
public:
  /// `wanted`: the arguments whose gradients are asked for.
  Backward(mlir::Block &block, llvm::ArrayRef<mlir::Value> wanted);

  /// True if `value` depends on a wanted argument.
  bool dependsOnWanted(mlir::Value value) const { return active.contains(value); }

  /// Builds the backward pass from `start`, whose gradient `seed` builds.
  /// Fails with a diagnostic at an op that has no gradient.
  mlir::LogicalResult run(mlir::Value start,
                          llvm::function_ref<mlir::Value(mlir::OpBuilder &)> seed);

  /// The gradient of a wanted argument; null where the start doesn't depend on it.
  mlir::Value gradient(mlir::Value argument) const { return gradients.lookup(argument); }

  /// Marks the ops added to the block by `build` as belonging to the forward op
  /// that `value` comes from.
  mlir::Value accumulate(mlir::Value value, llvm::function_ref<mlir::Value(mlir::OpBuilder &)>);

private:
  void findActive(llvm::ArrayRef<mlir::Value> wanted);
  mlir::LogicalResult differentiate(mlir::Operation *op);
  /// Joins what arrived for `value`, remembering the result.
  mlir::Value joined(mlir::Value value);
  int64_t forwardId(mlir::Value value) const;
  void addContribution(mlir::Value value, mlir::Value gradient);
  void markNewOps(mlir::Operation *last, int64_t forward, graph::BackwardKind kind);
  void markInputGrads();

  mlir::Block &block;
  llvm::DenseSet<mlir::Value> active;   ///< depend on a wanted argument
  llvm::DenseSet<mlir::Value> fromData; ///< depend on data: neither parameter nor buffer
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value, 2>> contributions;
  llvm::DenseMap<mlir::Value, mlir::Value> gradients;
  llvm::SmallVector<mlir::Value> dataGradients; ///< gradients of values in `fromData`
};

} // namespace dtc::training
