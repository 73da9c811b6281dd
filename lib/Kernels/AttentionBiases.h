// Biases of attention as libraries take them.
//
// In a graph a bias has a number for each score. A mask of keys is the same for all heads and
// queries. So storing all of it would take far more memory than attention as one call saves:
//
//     %m = arith.select %seen, %zero, %lowest : tensor<8x512xi1>, tensor<8x512xf32>
//     %b = dtc.broadcast %m [0, 3] : tensor<8x512xf32> -> tensor<8x12x512x512xf32>
//     %o, %lse = dtc.attention %q, %k, %v bias %b : tensor<8x12x512x512xf32> ...
//   becomes
//     %c = arith.maximumf %m, %least : tensor<8x512xf32>
//     %b = dtc.reshape %c : tensor<8x512xf32> -> tensor<8x1x1x512xf32>
//     %o, %lse = dtc.attention %q, %k, %v bias %b : tensor<8x1x1x512xf32> ...
//
// The least bias is so low that no score beside it counts. It is so far from the end of the type's
// range that a library may multiply it.
#pragma once

#include "dtc/Target/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::kernels {

/// Narrows the biases of attention that the target keeps whole.
void narrowBiases(mlir::func::FuncOp func, const target::Target &target);

} // namespace dtc::kernels
