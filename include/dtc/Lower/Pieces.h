// What ranks of different meshes send each other, compared between both ends.
//
// A value goes from one mesh to another in pieces (dtc/Stages/Stages.h). Ranks of a program have
// different pieces at one place, so that their programs can't name them. What is compared here is
// where in the whole value each piece begins, in the order in which one rank sends to another:
//
//   rank 0 -> rank 4   sends "activation 0 to stage 1" from element 0 on
//                      receives it from element 0 on
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace dtc::lower {

/// Fails, with diagnostics, where the scheduled modules of all roles disagree.
mlir::LogicalResult checkPieces(llvm::ArrayRef<mlir::ModuleOp> roles);

} // namespace dtc::lower
