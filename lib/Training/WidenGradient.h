// Gradients of bf16 parameters in f32.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

namespace dtc::training {

/// `gradient` with another, wider element type. The ops that produce it alone (a contraction, a
/// reduction, what moves elements) are changed to produce the wider type at once. So nothing is
/// rounded to the narrow one on the way to the accumulator. Otherwise it is extended.
mlir::Value widenGradient(mlir::OpBuilder &builder, mlir::Value gradient,
                          mlir::Type elementType);

} // namespace dtc::training
