// A tensor indexed by tensors, as in self[:, i, j].
#pragma once

#include "AtenConverter.h"

namespace dtc::import {

/// Indices in PyTorch's order: dimensions that are indexed go to the front of the tensor, where
/// `lead` takes their place. Where they were neighbours, it goes back to where the first one was.
///
///     self [a, b, c, d], self[:, i, j] with i and j of the shape [n]
///     dims {1, 2}, lead [n], toFront {1, 2, 0, 3}, toPlace {1, 0, 2}: the result is [a, n, d]
struct Indexed {
  llvm::SmallVector<Tensor> parts; ///< integers of the shape `lead`
  Shape dims, lead;
  Shape toFront; ///< transposes the tensor
  Shape toPlace; ///< transposes what was found at the front
};

llvm::FailureOr<Indexed> readIndices(AtenConverter &node, int64_t rank);

} // namespace dtc::import
