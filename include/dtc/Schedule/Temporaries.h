// How much of a module's arena its functions use in turn.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

namespace dtc::schedule {

/// Bytes of the arena beyond what lives through a step, after dtc-plan-memory.
mlir::FailureOr<int64_t> temporaryBytes(mlir::ModuleOp module);

} // namespace dtc::schedule
