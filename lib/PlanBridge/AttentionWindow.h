// Sliding windows of attention: which masks let a query see its last few keys alone.
//
// Exporters write a window as a mask that is added to the scores,
//
//   bias[b,h,i,j] = j <= i and j > i - 128 ? 0 : -inf
//
// of which fused kernels compute only the blocks that are seen: of 4,096 keys 128. The mask stays
// an operand; what it hides is told apart so that it isn't priced.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include <cstdint>

namespace dtc::planbridge {

/// How many keys a query sees, its own among them, where an attention's bias is nothing but such a
/// mask; 0 otherwise.
int64_t windowOf(mlir::Operation *attention);

} // namespace dtc::planbridge
