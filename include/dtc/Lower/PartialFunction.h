// The memory that a function needs as a part of a larger one.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

#include <vector>

namespace dtc::lower {

/// Which of its arguments nobody needs afterwards, and which results have places outside.
struct PartPlaces {
  const std::vector<bool> &spent, &apart;
};

/// Bytes that the module's only function needs beside all of its arguments and results, at the
/// moment when most is in use. It has passed dtc-build-schedule. Of the library's scratch for
/// `threads` threads, what exceeds the bytes `setAside` for it is included. Spent arguments make
/// room once they have been read, and results take some once they are written, unless they are
/// apart. So the bytes may be negative.
mlir::FailureOr<int64_t> bytesWithinFunction(mlir::ModuleOp module, int64_t threads,
                                             uint64_t setAside, const PartPlaces &places);

} // namespace dtc::lower
