// Layer and RMS normalization over the last dimension. Statistics in f32 at
// least; results are rounded to their element type once, at the end.
#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;

namespace dtc::graph {

namespace {

/// What forward and backward share: the rows of one normalization.
struct Rows {
  Rows(TensorBuilder &b, Value input)
      : b(b), shape(shapeOf(input)), last(shape.size() - 1), x(b.widen(input)) {}

  TensorBuilder &b;
  SmallVector<int64_t> shape;
  int64_t last;
  Value x;

  Value mean(Value v) { return b.scale(b.sum(v, {last}), 1.0 / shape[last]); }
  Value along(Value statistic) { return b.spread(statistic, shape, {last}); }
  /// A scale or bias repeated over the rows.
  Value perColumn(Value v) { return b.broadcast(b.widen(v), {last}, shape); }
  Value inverseRoot(Value meanSquare, double eps) {
    return b.unary<math::RsqrtOp>(b.offset(meanSquare, eps));
  }
  Value scaled(Value v, Value scale) { return scale ? b.mul(v, perColumn(scale)) : v; }
  Value sumOverRows(Value v) { return b.sum(v, otherDims(shape.size(), {last})); }
};

Value rounded(TensorBuilder &b, Value v, Value result) {
  return b.convert(v, getElementTypeOrSelf(result));
}

} // namespace

FailureOr<SmallVector<Value>> LayerNormOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  Rows rows(b, getInput());
  Value mean = rows.mean(rows.x);
  Value centred = b.sub(rows.x, rows.along(mean));
  Value rstd = rows.inverseRoot(rows.mean(b.square(centred)), getEps().convertToDouble());
  Value y = rows.scaled(b.mul(centred, rows.along(rstd)), getScale());
  if (getBias())
    y = b.add(y, rows.perColumn(getBias()));
  return SmallVector<Value>{rounded(b, y, getResult()), mean, rstd};
}

FailureOr<SmallVector<Value>> LayerNormGradOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  Rows rows(b, getInput());
  Value grad = b.widen(getGrad());
  Value rstd = rows.along(getRstd());
  Value normal = b.mul(b.sub(rows.x, rows.along(getMean())), rstd);
  Value inner = rows.scaled(grad, getScale());
  Value meanPart = rows.along(rows.mean(inner));
  Value spreadPart = b.mul(normal, rows.along(rows.mean(b.mul(inner, normal))));
  Value inputGrad = b.mul(b.sub(b.sub(inner, meanPart), spreadPart), rstd);
  Value scaleGrad = rows.sumOverRows(b.mul(grad, normal));
  Value biasGrad = rows.sumOverRows(grad);
  return SmallVector<Value>{rounded(b, inputGrad, getInputGrad()),
                            rounded(b, scaleGrad, getScaleGrad()),
                            rounded(b, biasGrad, getBiasGrad())};
}

FailureOr<SmallVector<Value>> RmsNormOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  Rows rows(b, getInput());
  Value rstd = rows.inverseRoot(rows.mean(b.square(rows.x)), getEps().convertToDouble());
  Value y = rows.scaled(b.mul(rows.x, rows.along(rstd)), getScale());
  return SmallVector<Value>{rounded(b, y, getResult()), rstd};
}

FailureOr<SmallVector<Value>> RmsNormGradOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  Rows rows(b, getInput());
  Value grad = b.widen(getGrad());
  Value rstd = rows.along(getRstd());
  Value normal = b.mul(rows.x, rstd);
  Value inner = rows.scaled(grad, getScale());
  Value spreadPart = b.mul(normal, rows.along(rows.mean(b.mul(inner, normal))));
  Value inputGrad = b.mul(b.sub(inner, spreadPart), rstd);
  Value scaleGrad = rows.sumOverRows(b.mul(grad, normal));
  return SmallVector<Value>{rounded(b, inputGrad, getInputGrad()),
                            rounded(b, scaleGrad, getScaleGrad())};
}

} // namespace dtc::graph
