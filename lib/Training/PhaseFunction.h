// A phase function (@forward, @prologue, ...) under construction: a function of
// one block whose arguments and results carry roles.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include "mlir/IR/BuiltinOps.h"

namespace dtc::training {

class PhaseFunction {
public:
  /// A new function at the end of the module, which runs once a step.
  PhaseFunction(mlir::ModuleOp module, llvm::StringRef name);
  /// Reopens a function: removes its return, keeps its arguments.
  explicit PhaseFunction(mlir::func::FuncOp func);

  /// The function's type and roles follow with declareArguments(): one by one it would be
  /// quadratic in their number.
  mlir::Value argument(mlir::Type type, graph::RoleAttr role);
  void declareArguments();
  void result(mlir::Value value, graph::RoleAttr role);
  /// Adds the return and sets the function's type; to be called last.
  void finish();

  mlir::func::FuncOp func() { return function; }
  mlir::Block &body() { return function.getBody().front(); }
  /// Builds at the end of the body.
  mlir::OpBuilder builder() { return mlir::OpBuilder::atBlockEnd(&body()); }

private:
  mlir::func::FuncOp function;
  llvm::SmallVector<mlir::Value> results;
  llvm::SmallVector<mlir::Attribute> argumentRoles, resultRoles;
};

graph::RoleAttr roleOf(mlir::MLIRContext *context, graph::RoleKind kind,
                       llvm::StringRef name = "");
graph::RoleAttr stateRole(mlir::MLIRContext *context, llvm::StringRef name,
                          graph::StateKind state);
graph::RoleAttr scalarRole(mlir::MLIRContext *context, graph::ScalarKind scalar);

/// Erases ops without effect whose results nothing uses, but `keep`.
void eraseDeadOps(mlir::Block &block, llvm::ArrayRef<mlir::Value> keep = {});

} // namespace dtc::training
