// More tokens behind those of each sample, so that ranks can share them.
//
//   %x = dtc.gather %w, %ids                 [8,33,64]     33 tokens, which two ranks can't share
//   %o = dtc.attention %q, %k, %v causal     [8,33,4,16]
// becomes
//   %more = dtc.concat 1 (%ids, %last)       [8,36]        the last token, four times in all
//   %x = dtc.gather %w, %more                [8,36,64]
//   %o = dtc.attention %q, %k, %v causal     [8,36,4,16]
//
// Whatever lies along the tokens is lengthened so: tables of positions, angles, constants. Nothing
// of the model's own tokens changes where every op computes each token by itself, and attention
// sees earlier ones alone. Where the loss ignores the tokens behind, their gradients are zeros.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace dtc::raise {

/// Lengthens the samples of @forward to a multiple of `multiple` tokens, and notes how many are
/// their own. Where that isn't exact the function stays as it is, and a warning tells which op is
/// the reason. It begins with `purpose`.
void padTokens(mlir::func::FuncOp func, int64_t multiple, llvm::StringRef purpose);

/// Of the integer inputs; 0 where they have no tokens, or differ.
int64_t tokensOf(mlir::func::FuncOp func);

} // namespace dtc::raise
