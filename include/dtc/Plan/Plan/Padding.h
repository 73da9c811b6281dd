// How much of a step is work on padding.
//
// The graph may see a weight longer than its file has it, so that ranks can share it
// (Training/PadDimension.h). People compare a model's parameters and flops with published ones. So
// what is padding is told apart from them. Prices and memory are of all.
//
// A product with a weight of 1002 rows, of which the file has 1000, and the next product:
//
//   h = x[b,k] w[n,k] -> [b,n]    b=8 n=1002 k=64    n: 1000 of the model
//   y = h[b,n] v[m,n] -> [b,m]    b=8 n=1002 m=64    n: as h has it
//
//   w: padding 2*64 of 1002*64 elements    both products: 2*8*2*64 of 2*8*1002*64 flops
#pragma once

#include "dtc/Plan/Plan/Problem.h"

namespace dtc::plan {

/// Marks the padding of parameters and tokens, and of all work that follows from it, forward and
/// backward. `filled`: of parameters that are longer than in their files, and of values that are
/// longer than a sample's own tokens, the shape without what is added. Padding lies at the end of a
/// dimension, or of the first factor of one.
void markPadding(Problem &problem, const std::map<ValueId, std::vector<int64_t>> &filled);

} // namespace dtc::plan
