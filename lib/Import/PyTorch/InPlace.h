// Operators that change a tensor in place, as operators that give a new one.
//
//   y = x.view(-1)                         y = x.view(-1)
//   x.add_(1)              becomes         x2 = x.add(1)
//   return x                               return x2
//
// Here y would have changed, too. Where such a value is read later the program is refused:
// functional export (run_decompositions) rewrites it.
#pragma once

#include "AtenGraph.h"

#include "llvm/Support/LogicalResult.h"

namespace dtc::import {

/// Renames what is read after each change. Errors are diagnostics at `file`.
llvm::LogicalResult makeFunctional(AtenGraph &graph, mlir::Location file);

} // namespace dtc::import
