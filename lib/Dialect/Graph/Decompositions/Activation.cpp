// Activations and their derivatives, computed in f32 at least and rounded once.
#include "dtc/Dialect/Graph/TensorBuilder.h"

#include <numbers>

using namespace mlir;

namespace dtc::graph {

namespace {

constexpr double kInvSqrt2 = std::numbers::sqrt2 / 2;
constexpr double kInvSqrt2Pi = std::numbers::inv_sqrtpi * kInvSqrt2;
constexpr double kGeluTanhFactor = 2 * kInvSqrt2Pi; ///< sqrt(2 / pi)
constexpr double kGeluTanhCubic = 0.044715;

using Predicate = arith::CmpFPredicate;

Value sigmoid(TensorBuilder &b, Value x) {
  return b.reciprocal(b.offset(b.unary<math::ExpOp>(b.negate(x)), 1.0));
}

/// The normal distribution function.
Value normalCdf(TensorBuilder &b, Value x) {
  return b.scale(b.offset(b.unary<math::ErfOp>(b.scale(x, kInvSqrt2)), 1.0), 0.5);
}

Value clamp(TensorBuilder &b, Value x, double low, double high) {
  return b.minimum(b.maximum(x, b.constantLike(x, low)), b.constantLike(x, high));
}

/// tanh(sqrt(2/pi) * (x + 0.044715 x^3)).
Value geluTanhInner(TensorBuilder &b, Value x) {
  Value cubic = b.offset(b.scale(b.square(x), kGeluTanhCubic), 1.0);
  return b.unary<math::TanhOp>(b.scale(b.mul(x, cubic), kGeluTanhFactor));
}

/// log(1 + exp(x)) without overflow.
Value softplus(TensorBuilder &b, Value x) {
  Value tail = b.unary<math::Log1pOp>(b.unary<math::ExpOp>(b.negate(b.unary<math::AbsFOp>(x))));
  return b.add(b.maximum(x, b.constantLike(x, 0.0)), tail);
}

/// min(max(x / 6 + 1/2, 0), 1): PyTorch's, which is ONNX's with alpha = 1/6.
Value hardSigmoid(TensorBuilder &b, Value x) {
  return clamp(b, b.offset(b.scale(x, 1.0 / 6), 0.5), 0.0, 1.0);
}

Value activate(TensorBuilder &b, Activation kind, Value x) {
  switch (kind) {
  case Activation::Relu:
    return b.maximum(x, b.constantLike(x, 0.0));
  case Activation::Gelu:
    return b.mul(x, normalCdf(b, x));
  case Activation::GeluTanh:
    return b.mul(x, b.scale(b.offset(geluTanhInner(b, x), 1.0), 0.5));
  case Activation::Silu:
    return b.mul(x, sigmoid(b, x));
  case Activation::Sigmoid:
    return sigmoid(b, x);
  case Activation::Softplus:
    return softplus(b, x);
  case Activation::HardSwish:
    return b.mul(x, hardSigmoid(b, x));
  case Activation::HardSigmoid:
    return hardSigmoid(b, x);
  case Activation::Relu6:
    return clamp(b, x, 0.0, 6.0);
  }
  llvm_unreachable("all activations handled");
}

Value geluSlope(TensorBuilder &b, Value x) {
  Value density = b.scale(b.unary<math::ExpOp>(b.scale(b.square(x), -0.5)), kInvSqrt2Pi);
  return b.add(normalCdf(b, x), b.mul(x, density));
}

Value geluTanhSlope(TensorBuilder &b, Value x) {
  Value t = geluTanhInner(b, x);
  Value innerSlope =
      b.scale(b.offset(b.scale(b.square(x), 3 * kGeluTanhCubic), 1.0), kGeluTanhFactor);
  Value tanhSlope = b.sub(b.constantLike(t, 1.0), b.square(t));
  Value rising = b.mul(b.mul(x, tanhSlope), innerSlope);
  return b.scale(b.add(b.offset(t, 1.0), rising), 0.5);
}

Value siluSlope(TensorBuilder &b, Value x) {
  Value s = sigmoid(b, x);
  Value rest = b.mul(x, b.sub(b.constantLike(s, 1.0), s));
  return b.mul(s, b.offset(rest, 1.0));
}

Value sigmoidSlope(TensorBuilder &b, Value x) {
  Value s = sigmoid(b, x);
  return b.mul(s, b.sub(b.constantLike(s, 1.0), s));
}

/// `inside` where low < x < high, `below` and `above` outside.
Value piecewise(TensorBuilder &b, Value x, double low, double below, double high, double above,
                Value inside) {
  Value upper = b.selectOr(b.compare(Predicate::OGE, x, high), above, inside);
  return b.selectOr(b.compare(Predicate::OLE, x, low), below, upper);
}

Value slope(TensorBuilder &b, Activation kind, Value x) {
  switch (kind) {
  case Activation::Relu:
    return b.selectOr(b.compare(Predicate::OGT, x, 0.0), b.constantLike(x, 1.0), 0.0);
  case Activation::Gelu:
    return geluSlope(b, x);
  case Activation::GeluTanh:
    return geluTanhSlope(b, x);
  case Activation::Silu:
    return siluSlope(b, x);
  case Activation::Sigmoid:
    return sigmoidSlope(b, x);
  case Activation::Softplus:
    return sigmoid(b, x);
  case Activation::HardSwish:
    return piecewise(b, x, -3.0, 0.0, 3.0, 1.0, b.offset(b.scale(x, 1.0 / 3), 0.5));
  case Activation::HardSigmoid:
    return piecewise(b, x, -3.0, 0.0, 3.0, 0.0, b.constantLike(x, 1.0 / 6));
  case Activation::Relu6:
    return piecewise(b, x, 0.0, 0.0, 6.0, 0.0, b.constantLike(x, 1.0));
  }
  llvm_unreachable("all activations handled");
}

} // namespace

FailureOr<SmallVector<Value>> ActivationOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  Value y = activate(b, getKind(), b.widen(getInput()));
  return SmallVector<Value>{b.convert(y, getElementTypeOrSelf(getType()))};
}

FailureOr<SmallVector<Value>> ActivationGradOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  Value x = b.widen(getInput()), grad = b.widen(getGrad());
  // A select keeps an infinite or undefined gradient out of the flat part.
  Value result = getKind() == Activation::Relu
                     ? b.selectOr(b.compare(Predicate::OGT, x, 0.0), grad, 0.0)
                     : b.mul(slope(b, getKind(), x), grad);
  return SmallVector<Value>{b.convert(result, getElementTypeOrSelf(getType()))};
}

} // namespace dtc::graph
