// The loop of passes that rewrite the functions of a module one by one, and ask its target how.
#pragma once

#include "dtc/Target/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::kernels {

/// Calls transform(function, target) for each function that has a body, until one fails.
template <typename Transform>
llvm::LogicalResult onEachFunction(mlir::ModuleOp module, Transform transform) {
  mlir::FailureOr<const target::Target *> target = target::targetOf(module);
  if (failed(target))
    return mlir::failure();
  for (auto function : llvm::to_vector(module.getOps<mlir::func::FuncOp>()))
    if (!function.isExternal() && failed(transform(function, **target)))
      return mlir::failure();
  return mlir::success();
}

} // namespace dtc::kernels
