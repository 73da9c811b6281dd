// Biases of attention as libraries take them.
//
// In a graph a bias has a number for each score of each sample. Where samples share them, a library
// reads those of one:
//
//     %b = dtc.broadcast %m [1, 2, 3] : tensor<12x512x512xbf16> -> tensor<8x12x512x512xbf16>
//     %o, %lse = dtc.attention %q, %k, %v bias %b : tensor<8x12x512x512xbf16> ...
//   becomes
//     %b = dtc.broadcast %m [1, 2, 3] : tensor<12x512x512xbf16> -> tensor<1x12x512x512xbf16>
//     %o, %lse = dtc.attention %q, %k, %v bias %b : tensor<1x12x512x512xbf16> ...
#pragma once

#include "dtc/Target/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::kernels {

/// Of attention that the target keeps whole.
void shareBiases(mlir::func::FuncOp func, const target::Target &target);

} // namespace dtc::kernels
