// What a library does to a product on the way to memory, besides multiplying.
//
// A layer's products are followed by a bias and GELU. In the backward pass GELU's gradient follows,
// and sums over rows, which are the gradients of biases. Where the target's library has these as
// epilogues (Target.h), no kernel is launched for them, and nothing is read again:
//
//     y = gelu(x * w + b)            one call, which also writes x * w + b for the backward pass
//     d(x * w + b) = d(y * w2) ...   one call, which multiplies by gelu' on the way
//     dw = x^T * dz, db = sum(dz)    one call
#pragma once

#include "dtc/Target/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::kernels {

/// Whether `op` is GELU by way of tanh, or its gradient, of what a contraction makes. It stays
/// whole until it is known which products there are.
bool mayBecomeEpilogue(mlir::Operation *op);

/// Gives the function's products their epilogues. What has become one is erased.
void foldEpilogues(mlir::func::FuncOp function, const target::Target &target);

} // namespace dtc::kernels
