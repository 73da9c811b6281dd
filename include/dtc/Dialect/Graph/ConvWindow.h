// The window of a convolution, and what gradients of its weight keep to in any dialect.
#pragma once

#include "mlir/IR/Operation.h"

namespace dtc::graph {

/// What the windowed ops have in common.
struct ConvWindow {
  llvm::ArrayRef<int64_t> strides, padLow, padHigh, dilations;
  template <typename Op> static ConvWindow of(Op op) {
    return {op.getStrides(), op.getPadLow(), op.getPadHigh(), op.getDilations()};
  }
};

/// Checks an op whose first operands are the input and the gradient of the output, and whose
/// result is the gradient of the weight.
mlir::LogicalResult verifyConvWeightGrad(mlir::Operation *op, const ConvWindow &window,
                                         int64_t groups);

} // namespace dtc::graph
