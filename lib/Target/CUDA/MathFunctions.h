// Elementary functions on a GPU, without a library of them.
#pragma once

#include "mlir/IR/Builders.h"

namespace dtc::cuda {

/// Whether the op has a form on a GPU: all of arithmetic, of `math` what is said below.
bool isComputable(mlir::Operation *op);

/// exp(x) in f32 by few instructions, which bound long rows of them. On an H100 it is 1.9 units of
/// the last place off, twice what approximate's is, and not always as an emulated GPU has it.
mlir::Value shortExponential(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);

/// exp(x) in f32 for kernels that read halves. Its relative error grows with |x|, to 5e-6 before
/// the result is 0 or infinite. So sums of exponentials below 1 are off by 1e-7.
mlir::Value coarseExponential(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);
/// 1 / x in f32 for x of at least 1, off by one unit of the last place.
mlir::Value coarseReciprocal(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);

/// `op` on the scalar `operands`; null where it stays an op that the GPU has itself. The
/// functions that networks are made of are, in f32, those of Kernels (MathApproximation.h);
/// others and those of f64 are computed in f64.
mlir::Value approximate(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands);

} // namespace dtc::cuda
