// Parameter updates. Run-time scalars are combined in their own type (f64) and
// rounded to the parameter's once, as PyTorch does with its Python floats. Halves are computed in
// f32, and what is stored is rounded once, as by PyTorch's fused optimizers.
#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;

namespace dtc::graph {

namespace {

/// One update: everything elementwise over the parameter in its statistics type.
struct Update {
  Update(TensorBuilder &b, Value param) : b(b), shape(shapeOf(param)), p(b.widen(param)) {}

  TensorBuilder &b;
  SmallVector<int64_t> shape;
  Value p;

  Value element(Value v) { return b.convert(v, getElementTypeOrSelf(p)); }
  Value everywhere(Value scalar) { return b.broadcast(element(scalar), {}, shape); }
  /// The gradient times the clipping factor, where there is one.
  Value scaledGrad(Value grad, Value gradScale) {
    if (matchPattern(gradScale, m_OneFloat()))
      return element(grad);
    return b.mul(element(grad), everywhere(gradScale));
  }
  Value rounded(Value v, Value result) { return b.convert(v, getElementTypeOrSelf(result)); }
};

/// decay * old + fresh.
Value decayed(TensorBuilder &b, Value old, double decay, Value fresh) {
  return b.add(b.scale(old, decay), fresh);
}

} // namespace

FailureOr<SmallVector<Value>> SgdUpdateOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  Update update(b, getParam());
  double momentum = getMomentum().convertToDouble(), decay = getWeightDecay().convertToDouble();
  Value grad = update.scaledGrad(getGrad(), getGradScale());
  if (decay != 0.0)
    grad = b.add(grad, b.scale(update.p, decay));
  SmallVector<Value> results(1);
  if (getMomentumBuffer()) {
    Value buffer = decayed(b, update.element(getMomentumBuffer()), momentum, grad);
    grad = getNesterov() ? b.add(grad, b.scale(buffer, momentum)) : buffer;
    results.push_back(update.rounded(buffer, getNewMomentumBuffer()));
  }
  Value step = b.mul(grad, update.everywhere(getLr()));
  results[0] = update.rounded(b.sub(update.p, step), getNewParam());
  return results;
}

FailureOr<SmallVector<Value>> AdamUpdateOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  Update update(b, getParam());
  double beta1 = getBeta1().convertToDouble(), beta2 = getBeta2().convertToDouble();
  double decay = getWeightDecay().convertToDouble();
  Value grad = update.scaledGrad(getGrad(), getGradScale()), p = update.p;
  if (decay != 0.0 && getDecoupled())
    p = b.mul(p, update.everywhere(b.offset(b.scale(getLr(), -decay), 1.0)));
  else if (decay != 0.0)
    grad = b.add(grad, b.scale(p, decay));
  Value m = decayed(b, update.element(getExpAvg()), beta1, b.scale(grad, 1.0 - beta1));
  Value v = decayed(b, update.element(getExpAvgSq()), beta2,
                    b.mul(b.scale(grad, 1.0 - beta2), grad));
  Value stepSize = b.div(getLr(), b.convert(getCorrection1(), getElementTypeOrSelf(getLr())));
  Value inverseRoot = b.reciprocal(b.unary<math::SqrtOp>(getCorrection2()));
  Value denominator = b.offset(b.mul(b.unary<math::SqrtOp>(v), update.everywhere(inverseRoot)),
                               getEps().convertToDouble());
  Value step = b.mul(b.div(m, denominator), update.everywhere(stepSize));
  return SmallVector<Value>{update.rounded(b.sub(p, step), getNewParam()),
                            update.rounded(m, getNewExpAvg()),
                            update.rounded(v, getNewExpAvgSq())};
}

} // namespace dtc::graph
