// What the library computes on this machine, asked before any long work.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace dtc::lower {

/// Refuses contractions and convolutions of element types that oneDNN has no
/// primitive for on this processor (f64 everywhere, bf16 without AVX-512),
/// naming the first op of each.
mlir::LogicalResult checkLibraryTypes(mlir::ModuleOp module);

/// Whether the module has a call that the library can't make with `threads` threads, be it for
/// its shape alone: planning memory failed at it, and the model is what is refused.
bool lacksLibraryCall(mlir::ModuleOp module, int64_t threads);

} // namespace dtc::lower
