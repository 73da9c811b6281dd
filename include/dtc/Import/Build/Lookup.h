// Elements addressed by value: gathers, one-hot, running sums.
#pragma once

#include "dtc/Import/Build/Conversion.h"

namespace dtc::import {

/// Slices of `data` along `axis` by index; the indices' dimensions take the axis' place.
llvm::FailureOr<Tensor> gatherTensor(Conversion &node, const Tensor &data, const Tensor &indices,
                                     int64_t axis);
/// Elements of `data`, each at its own index along `axis` and at its own place elsewhere.
llvm::FailureOr<Tensor> gatherElements(Conversion &node, const Tensor &data, const Tensor &indices,
                                       int64_t axis);
llvm::FailureOr<Tensor> cumulativeSum(Conversion &node, const Tensor &tensor, int64_t axis,
                                      bool exclusive, bool reverse);

/// What a one-hot tensor has at the position, and elsewhere.
struct HotValues {
  mlir::Type element;
  double off, on;
};
/// A new dimension of size `depth` stands at `axis`.
llvm::FailureOr<Tensor> oneHot(Conversion &node, const Tensor &positions, int64_t axis,
                               int64_t depth, const HotValues &values);

} // namespace dtc::import
