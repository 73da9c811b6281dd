// Tensors whose dimensions have indices, as contractions write them: x[b,s,k] w[k,n] -> y[b,s,n] is
// [0, 1, 3], [3, 2] -> [0, 1, 2].
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

namespace dtc::graph {

struct IndexedTensor {
  mlir::Value value;
  llvm::ArrayRef<int64_t> indices; ///< one for each dimension
  llvm::StringRef what;            ///< for messages
};

/// Refuses indices that a tensor repeats, and those that tensors disagree about the size of. Also
/// refuses numbers that leave gaps, of all that the first `numbering` tensors have.
mlir::LogicalResult verifyIndexSizes(mlir::Operation *op, llvm::ArrayRef<IndexedTensor> tensors,
                                     size_t numbering);

/// The size of each index, by number; 1 of those that no tensor has.
llvm::SmallVector<int64_t> sizesByIndex(llvm::ArrayRef<IndexedTensor> tensors);

/// The indices of a grouped contraction that its choices share with all others: parts of the
/// experts, where rows have slots (SlotOps.td). Choices are then numbers of experts of a part.
llvm::SmallVector<int64_t> partIndices(GroupedContractOp op);

} // namespace dtc::graph
