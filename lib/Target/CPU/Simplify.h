// Rewrites before kernels are formed.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace dtc::cpu {

/// Sums of disjoint pads to concatenations, whole reductions by rows first,
/// transposes into contractions, half precision scatter_add and max_pool_grad
/// in f32.
void populateSimplifyPatterns(mlir::RewritePatternSet &patterns);

} // namespace dtc::cpu
