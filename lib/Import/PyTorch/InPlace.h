// Operators that change a tensor in place, as operators that give a new one.
//
//   y = x.view(-1)                         y = x.view(-1)
//   x.add_(1)              becomes         x2 = x.add(1)
//   return x                               return x2
//
// Here y would have changed, too. Where such a value is read later the program is refused:
// functional export (run_decompositions) rewrites it.
//
// A buffer that is changed so gets a value that replaces it. Batch norms in training mode change
// their running statistics; they become the operator that has the new ones among its results.
#pragma once

#include "AtenGraph.h"

#include "dtc/Import/ImportedModel.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/LogicalResult.h"

namespace dtc::import {

/// What the program says it changes: buffers, and the tensors that operators name.
llvm::StringSet<> changedValues(const AtenGraph &graph);

/// Renames what is read after each change. Errors are diagnostics at `file`.
llvm::LogicalResult makeFunctional(AtenGraph &graph, BatchNormMode norms, mlir::Location file);

} // namespace dtc::import
