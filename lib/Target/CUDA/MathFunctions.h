// Elementary functions on a GPU, without a library of them.
#pragma once

#include "mlir/IR/Builders.h"

namespace dtc::cuda {

/// Whether the op has a form on a GPU: all of arithmetic, of `math` what is said below.
bool isComputable(mlir::Operation *op);

/// exp(x) in f32 by few instructions, which bound long rows of them. On an H100 it is 1.9 units of
/// the last place off, twice what approximate's is, and not always as an emulated GPU has it.
mlir::Value shortExponential(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);

/// `op` on the scalar `operands`; null where it stays an op that the GPU has itself. The
/// functions that networks are made of are, in f32, those of Kernels (MathApproximation.h);
/// others and those of f64 are computed in f64.
mlir::Value approximate(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands);

} // namespace dtc::cuda
