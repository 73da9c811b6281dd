#include "Softmax.h"

#include <limits>

using namespace mlir;

namespace dtc::graph {

Value finiteRowMaximum(TensorBuilder &b, Value x, int64_t dim) {
  Value maximum = b.reduce(ReduceKind::Max, x, {dim});
  Value empty = b.compare(arith::CmpFPredicate::OEQ, maximum,
                          -std::numeric_limits<double>::infinity());
  return b.selectOr(empty, 0.0, maximum);
}

SoftmaxRows softmaxRows(TensorBuilder &b, Value x, int64_t dim) {
  ArrayRef<int64_t> shape = shapeOf(x);
  SoftmaxRows rows;
  rows.maximum = finiteRowMaximum(b, x, dim);
  rows.exponentials = b.unary<math::ExpOp>(b.sub(x, b.spread(rows.maximum, shape, {dim})));
  rows.total = b.sum(rows.exponentials, {dim});
  return rows;
}

Value normalizedRows(TensorBuilder &b, const SoftmaxRows &rows, int64_t dim) {
  Value empty = b.compare(arith::CmpFPredicate::OEQ, rows.total, 0.0);
  Value inverse = b.selectOr(empty, 0.0, b.reciprocal(rows.total));
  return b.mul(rows.exponentials, b.spread(inverse, shapeOf(rows.exponentials), {dim}));
}

Value logTotal(TensorBuilder &b, const SoftmaxRows &rows) {
  return b.add(rows.maximum, b.unary<math::LogOp>(rows.total));
}

Value softmaxInputGrad(TensorBuilder &b, Value y, Value grad, int64_t dim) {
  Value inner = b.sum(b.mul(grad, y), {dim});
  return b.mul(y, b.sub(grad, b.spread(inner, shapeOf(y), {dim})));
}

FailureOr<SmallVector<Value>> SoftmaxOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  int64_t dim = getDim();
  Value y = normalizedRows(b, softmaxRows(b, b.widen(getInput()), dim), dim);
  return SmallVector<Value>{b.convert(y, getElementTypeOrSelf(getType()))};
}

FailureOr<SmallVector<Value>> SoftmaxGradOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  Value result = softmaxInputGrad(b, b.widen(getOutput()), b.widen(getGrad()), getDim());
  return SmallVector<Value>{b.convert(result, getElementTypeOrSelf(getType()))};
}

} // namespace dtc::graph
