// Elementary functions in arithmetic that vectorizes, for f32.
#pragma once

#include "mlir/IR/Builders.h"

namespace dtc::kernels {

/// `op` on the scalar `operands`, or null where there is no approximation for it. It then stays an
/// op, and becomes a call of libm at last. Errors are below 2.5 units in the last place, for
/// results that are not subnormal.
mlir::Value approximate(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands);

} // namespace dtc::kernels
