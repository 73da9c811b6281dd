// Gradients of contractions of two operands.
#pragma once

#include "dtc/Dialect/Graph/TensorBuilder.h"

namespace dtc::graph {

/// z[R] = sum x[X] y[Y] gives x'[X] = sum z'[R] y[Y]. An index of x is in z or in y, so every
/// gradient of a contraction is one. `contract(b, other, otherIndices, operand, indices)` makes
/// that of `operand` out of the result's gradient and the other operand, which has its type.
template <typename Op, typename Contract>
void buildContractGradients(Op op, mlir::OpBuilder &builder, mlir::Value grad,
                            llvm::ArrayRef<bool> needed,
                            llvm::MutableArrayRef<mlir::Value> operandGrads, Contract contract) {
  TensorBuilder b(builder, op.getLoc());
  auto build = [&](mlir::Value other, llvm::ArrayRef<int64_t> otherIndices, mlir::Value operand,
                   llvm::ArrayRef<int64_t> indices) {
    other = b.convert(other, mlir::getElementTypeOrSelf(grad));
    return b.convert(contract(b, other, otherIndices, operand, indices),
                     mlir::getElementTypeOrSelf(operand));
  };
  if (needed[0])
    operandGrads[0] = build(op.getRhs(), op.getRhsIndices(), op.getLhs(), op.getLhsIndices());
  if (needed[1])
    operandGrads[1] = build(op.getLhs(), op.getLhsIndices(), op.getRhs(), op.getRhsIndices());
}

} // namespace dtc::graph
