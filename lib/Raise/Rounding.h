// How far the numbers of a file may be from those that were meant.
#pragma once

#include "dtc/Dialect/Graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc::raise {

/// On @forward between `dtc-widen-halves` and `dtc-raise`: an array of the half types in which the
/// file held parameters and numbers that are f32 since.
inline constexpr llvm::StringLiteral kRoundedTo = "dtc.rounded_to";

/// Tells whether numbers of a file are those of a formula. A file in bf16 cannot hold GELU's
/// 0.044715, it has 0.044678, the nearest number with 8 bits:
///
///     file in   number      isNear(number, 0.044715)
///     f32       0.044715    yes
///     f32       0.044678    no: f32 tells the two apart
///     bf16      0.044678    yes: 0.044715 rounds to it
///     bf16      0.044922    no: the next number of bf16
///     bf16      0.044700    no: bf16 has no such number, so it was held in f32
class Rounding {
public:
  /// Of the function in which the op is.
  explicit Rounding(mlir::Operation *op);

  /// Whether `number`, computed from the file's `numbers` by products and quotients, may stand
  /// for `wanted`.
  bool isNear(double number, llvm::ArrayRef<double> numbers, double wanted) const;

private:
  /// The most by which rounding may have moved a number, relative to it.
  double errorOf(double number) const;

  llvm::SmallVector<mlir::FloatType, 2> types;
};

} // namespace dtc::raise
