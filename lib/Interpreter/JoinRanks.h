// What several ranks of a pipeline do together, as one function.
//
//   rank 0   %a = f %x    %s = dist.stage_sum %a stages [0, 1]   return %s
//   rank 1   %b = g %y    %t = dist.stage_sum %b stages [0, 1]   return h(%t)
//   joined   (%x, %y)     %a = f %x   %b = g %y   %s = dtc.sum %a, %b   return %s, h(%s)
//
// Where the sum is also one over axes of a stage's mesh, an all-reduce follows. Ranks that wait for
// each other for ever are an error.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include "mlir/IR/OwningOpRef.h"

namespace dtc::interpreter {

/// `functions`: by rank, null where a rank has none. Arguments and results are those of all
/// functions, one after another.
mlir::FailureOr<mlir::OwningOpRef<mlir::func::FuncOp>>
joinRanks(llvm::ArrayRef<mlir::func::FuncOp> functions, mlir::MLIRContext *context);

} // namespace dtc::interpreter
