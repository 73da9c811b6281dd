// The workspace of the ops of a module, found by building each of them alone.
#pragma once

#include "dtc/Plan/Workspace.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Support/LLVM.h"

#include "llvm/ADT/DenseMap.h"

#include <functional>

namespace dtc::planbridge {

/// For an op on a rank's shapes, makes a module whose @forward holds that op
/// alone, its operands as inputs and its results as outputs, and has it
/// measured; once for ops that are alike.
class LocalWorkspace : public plan::Workspace {
public:
  /// Bytes that the module's function needs beside what it is given and returns.
  using Measure = std::function<mlir::FailureOr<int64_t>(mlir::ModuleOp)>;

  /// `module`: where the problem was extracted from; it may change afterwards.
  LocalWorkspace(mlir::ModuleOp module, Measure measure);

  int64_t bytes(plan::OpId op, const plan::Shapes &operands,
                const plan::Shapes &results) const override;

private:
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<mlir::Operation *> ops; ///< by number in the problem
  Measure measure;
  mutable llvm::DenseMap<mlir::Attribute, int64_t> known; ///< by op, attributes and types
};

} // namespace dtc::planbridge
