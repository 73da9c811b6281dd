// Philox in the arithmetic of kernels (dtc-rt/Files/Philox.h has it for the host).
#pragma once

#include "mlir/IR/Builders.h"

namespace dtc::kernels {

/// An element of dtc.philox from its key and its index, which are i64.
mlir::Value philoxWord(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value key,
                       mlir::Value index, int64_t number);

} // namespace dtc::kernels
