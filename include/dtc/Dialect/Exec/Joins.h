// Kernels whose pieces make parts of the same results.
//
// The results of a kernel with pieces are each piece's own, or else what all of them make one
// behind the other. The body then ends with one dtc.concat a result:
//
//     exec.kernel @rows_0 ... pieces 2 {
//       ... %p = dtc.reduce sum ... : tensor<4x4096xf32> -> tensor<4xf32>     of the first piece
//       ... %q = dtc.reduce sum ... : tensor<1x4096xf32> -> tensor<1xf32>     of the second
//       %all = dtc.concat 0(%p, %q) : tensor<4xf32>, tensor<1xf32> -> tensor<5xf32>
//       exec.yield %all
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

namespace dtc::exec {

/// The concatenations that join what pieces make, one for each result; empty where each piece has
/// its own results.
llvm::SmallVector<graph::ConcatOp> joinsOf(KernelOp kernel);

} // namespace dtc::exec
