// Operators that change a tensor in place, as operators that give a new one.
//
//   y = x.view(-1)                         y = x.view(-1)
//   x.add_(1)              becomes         x2 = x.add(1)
//   return y                               y2 = x2.view(-1)
//                                          return y2
//
// A part that is changed comes into the whole (Views.h), from which other parts are taken again.
// Where PyTorch's strides decide whether elements are shared, as in reshape, a program that depends
// on it is refused: functional export (run_decompositions) rewrites it.
//
// A buffer that is changed so gets a value that replaces it. Batch norms in training mode change
// their running statistics; they become the operator that has the new ones among its results.
#pragma once

#include "AtenGraph.h"

#include "dtc/Import/Build/Budget.h"
#include "dtc/Import/ImportedModel.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/LogicalResult.h"

namespace dtc::import {

/// What the program says it changes: buffers, and the tensors that operators name.
llvm::StringSet<> changedValues(const AtenGraph &graph);

/// Renames what is read after each change. Errors are diagnostics at `file`.
llvm::LogicalResult makeFunctional(AtenGraph &graph, BatchNormMode norms, mlir::Location file,
                                   Budget &budget);

} // namespace dtc::import
