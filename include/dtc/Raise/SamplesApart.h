// Whether the samples of a batch leave each other alone, so that more of them change nothing.
//
//   %y = dtc.contract %x [0, 1], %w [1, 2] -> [0, 2]      each sample by itself
//   %m = dtc.reduce sum %x [0]                            of all samples: mixes them
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace dtc::raise {

/// Refuses what lets a sample change another one's outputs, and outputs that haven't the samples
/// first. `purpose` begins the line that says so, `advice` ends it; inputs in `whole` have none.
llvm::LogicalResult checkSamplesApart(mlir::func::FuncOp func, llvm::ArrayRef<std::string> whole,
                                      std::string purpose, std::string advice);

} // namespace dtc::raise
