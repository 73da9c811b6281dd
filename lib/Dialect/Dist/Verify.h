// What the verifiers of several ops ask.
#pragma once

#include "dtc/Dialect/Dist/Dist.h"

namespace dtc::dist {

/// An op that exchanges its operands together has at least one, and all have one element type.
mlir::LogicalResult checkOneElementType(mlir::Operation *op, mlir::ValueRange operands);

} // namespace dtc::dist
