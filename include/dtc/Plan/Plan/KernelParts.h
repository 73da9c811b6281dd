// What each op adds to the kernels of dtc's own programs on GPUs, by which these are priced as the
// compiler forms them (lib/Kernels/Clusters.h). A residual sum, a norm and its gradient:
//
//   y = x + a              one kernel reads x and a, writes y and n, and launches once. So the sum
//   n = norm y             has two reads and a write, and the norm has a write alone.
//   dy = norm_grad y dn    one kernel reads y, dn and dz, and writes dx. Another reads y and dn
//   dx = dy + dz           once more, for the gradient of the scale. Nothing writes dy.
//
// Short arithmetic that is stored nowhere belongs to each kernel that reads it. What a library's
// call reads through views is read by the call.
#pragma once

#include "dtc/Plan/Plan/Problem.h"

namespace dtc::plan {

/// By op. Asks the facts for producers, consumers, results and what is materialized.
std::vector<KernelPart> findKernelParts(const Problem &problem, const ProblemFacts &facts);

/// Whether a sum adds one term to what earlier microbatches left, and a product or a convolution
/// makes it. Where programs are dtc's own for GPUs, that call adds to what they left, and the sum
/// is no kernel (lib/Kernels/Accumulation.h).
bool isAddedByCall(const Problem &problem, const ProblemFacts &facts, OpId sum);

/// Whether a product, or attention, is one of copies of its operands in f32, as the target's
/// library multiplies none of their type. What it makes is rounded. A library that merely rounds
/// gradients of weights is told by the product of the forward pass, which it gives as the graph has
/// it.
bool multipliesCopies(const Problem &problem, const Op &op);

/// Whether a library computes an op.
bool isLibraryCall(const Op &op);
/// Whether it computes one, or what it may compute beside a product.
bool isInLibraryCall(const Op &op);

/// Whether a library computes an op while it makes a product. What it could make, but isn't stored,
/// is part of the kernels that read the product's result, unless these are made with one, too.
bool isMadeWithProduct(const Problem &problem, const ProblemFacts &facts, OpId id);

/// A product of two matrices, or of batches of them. Nothing slides over its operands, as in a
/// convolution, and no row finds its expert as the program runs.
bool isMatrixProduct(const Op &op);
/// A convolution's window slides over its operands, which lie as it has them.
bool isConvolution(const Op &op);

} // namespace dtc::plan
