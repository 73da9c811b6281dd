// Resizing a dimension: a new element is the nearest old one, or a weighted sum of its neighbours.
#pragma once

#include "dtc/Import/Build/Conversion.h"

#include <vector>

namespace dtc::import {

/// How much of an element of the input an element of the result is. What is before the first
/// element or behind the last one counts as these.
struct Share {
  int64_t index;
  double weight;
};

/// Linear or cubic interpolation.
struct Interpolation {
  bool cubic = false;
  double slope = -0.75;         ///< of the cubic kernel, at the distance 1
  double shrink = 1;            ///< below 1 the kernel is wider by this, and weights add up to 1
  bool excludesOutside = false; ///< what is outside has no weight, and weights add up to 1
};

/// The elements around a position between them.
std::vector<Share> interpolationShares(const Interpolation &form, double position, int64_t size);

/// The elements of one dimension at `indices`; those outside are the first or last one.
mlir::Value resizeByIndices(Emitter &emit, mlir::Value value, int64_t dim,
                            std::vector<int64_t> indices);
/// A diagnostic where the matrix of shares of `to` results is too large. To be called before these
/// are made.
llvm::LogicalResult checkShares(Conversion &node, mlir::Value value, int64_t dim, int64_t to);
/// A product with the matrix of all shares.
mlir::Value resizeByShares(Conversion &node, mlir::Value value, int64_t dim,
                           llvm::ArrayRef<std::vector<Share>> shares);

} // namespace dtc::import
