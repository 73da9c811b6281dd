// Products of half precision where copies in f32 are multiplied (lib/Kernels/WidenProducts.h).
//
//     y = x * w : bf16     x and w are read by the backward pass, too. So a kernel reads x
//                          and writes its copy, another one does so for w. The product reads 4
//                          bytes an element. It gives y in f32, which a kernel rounds if several
//                          ops read y, or one behind the next product.
//
// What one op reads alone is never there in half precision: its kernel writes or reads 4 bytes.
#pragma once

#include "dtc/Plan/Cost/OpWork.h"

namespace dtc::plan {

/// Adds what copying takes to the work of a product, or of attention, in half precision.
void addWideCopies(const Problem &problem, const ProblemFacts &facts, OpId id,
                   const sharding::OpSharding &choice, const sharding::Mesh &mesh, LocalWork &work);

} // namespace dtc::plan
