// What layer and optimizer ops mean in simpler ops.
#pragma once

#include "dtc/Interfaces/Interfaces.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <vector>

namespace dtc::interpreter {

/// Functions of an op's operands that compute its results, made once for all that are alike. They
/// stand beside the program, which evaluating doesn't change. Whoever evaluates the functions of
/// all ranks, and these several times, has the same for all of them.
class Decompositions {
public:
  mlir::FailureOr<mlir::func::FuncOp> of(DecomposableOpInterface op);
  size_t size() const { return known.size(); }

private:
  /// By the op's name, own attributes and types.
  std::map<std::vector<uintptr_t>, mlir::OwningOpRef<mlir::func::FuncOp>> known;
};

} // namespace dtc::interpreter
