// The memory that a function needs as a part of a larger one.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

#include <vector>

namespace dtc::lower {

/// Bytes that the module's only function needs beside all of its arguments and results, at the
/// moment when most is in use. It has passed dtc-build-schedule. The library's scratch for
/// `threads` threads is included. Arguments that are `spent` make room once they have been read:
/// where they are gone before the results are written, the bytes may be negative.
mlir::FailureOr<int64_t> bytesWithinFunction(mlir::ModuleOp module, int64_t threads,
                                             const std::vector<bool> &spent);

} // namespace dtc::lower
