// What the library computes on this machine, asked before any long work.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace dtc::schedule {

/// Refuses contractions and convolutions of element types that oneDNN has no
/// primitive for on this processor (f64 everywhere, bf16 without AVX-512),
/// naming the first op of each.
mlir::LogicalResult checkLibraryTypes(mlir::ModuleOp module);

} // namespace dtc::schedule
