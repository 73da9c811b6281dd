// Functions for the last microbatch of a step. They do more than those of the others: they sum up
// gradients over ranks as they make them.
//
//     func.func @loss_and_grads_last(...) attributes {exec.last_of = @loss_and_grads}
//
// Both have arguments and results of the same roles and places. Of gradients the one for the last
// microbatch may return the rank's part of the sum. The schedule calls the other for all before it.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::exec {

/// On a function: the one that it stands for in the last microbatch, as a symbol.
inline constexpr llvm::StringLiteral kLastOf = "exec.last_of";

/// On an argument or result that lies at the beginning of a larger place, as such a part does, or a
/// gradient that is padded there: the type of the place, as a TypeAttr. Its encoding is the place's
/// dist.sharding.
inline constexpr llvm::StringLiteral kRoom = "exec.room";

void setLastOf(mlir::func::FuncOp last, mlir::func::FuncOp function);
/// The name of the function that this one stands for; empty: none.
llvm::StringRef lastOf(mlir::func::FuncOp last);

} // namespace dtc::exec
