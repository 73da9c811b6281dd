// Kernels that do the same to several tensors: plans and checks of their pieces.
#pragma once

#include "KernelPlan.h"

namespace dtc::cuda {

inline constexpr int64_t kPointwiseThreads = 256;

/// Neighbouring elements in one access, as the smallest element type allows.
int64_t elementsOfAccess(const BodyInfo &info);

/// Shares so many elements out among the threads of a pointwise kernel.
void divideElements(int64_t elements, KernelPlan &plan);

/// Whether every piece does what the first one does, and that is what pieces can do.
llvm::LogicalResult checkPieces(const BodyInfo &info);

/// Each piece has as many blocks as its elements need.
void planPieces(const BodyInfo &info, KernelPlan &plan);

/// Each block adds up a part of a piece.
void planTotals(const BodyInfo &info, KernelPlan &plan);

} // namespace dtc::cuda
