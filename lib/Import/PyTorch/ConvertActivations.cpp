// Operators of one tensor that act element by element.
#include "AtenConverter.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Unsupported.h"

#include "llvm/ADT/StringSwitch.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace dtc::import {

/// Operators of one tensor that ONNX has under another name.
static StringRef unaryName(StringRef op) {
  return llvm::StringSwitch<StringRef>(op)
      .Case("aten.neg", "Neg")
      .Case("aten.abs", "Abs")
      .Case("aten.exp", "Exp")
      .Case("aten.log", "Log")
      .Case("aten.sqrt", "Sqrt")
      .Case("aten.reciprocal", "Reciprocal")
      .Case("aten.sin", "Sin")
      .Case("aten.cos", "Cos")
      .Case("aten.tanh", "Tanh")
      .Case("aten.erf", "Erf")
      .Case("aten.floor", "Floor")
      .Case("aten.ceil", "Ceil")
      .Case("aten.round", "Round")
      .Case("aten.sign", "Sign")
      .Case("aten.isnan", "IsNaN")
      .Case("aten.tan", "Tan")
      .Case("aten.asin", "Asin")
      .Case("aten.acos", "Acos")
      .Case("aten.atan", "Atan")
      .Case("aten.sinh", "Sinh")
      .Case("aten.cosh", "Cosh")
      .Default("");
}

static LogicalResult convertUnary(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  const std::string op = node.op();
  const bool keepsIntegers = op == "aten.neg" || op == "aten.abs" || op == "aten.sign";
  if (!isa<FloatType>(self->element()) && !keepsIntegers)
    self = cast(node, *self, node.emit.getF32Type());
  return failed(self) ? failure() : node.define(unary(node, unaryName(op), *self));
}

static LogicalResult convertRsqrt(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  Host power = HostTensor::splat(self->element(), {}, -0.5);
  return node.define(binary(node, "Pow", *self, Tensor(power)));
}

template <graph::Activation kind> static LogicalResult convertActivation(AtenConverter &node) {
  auto self = node.tensor("self");
  return failed(self) ? failure() : node.define(activation(node, kind, *self));
}

static LogicalResult convertGelu(AtenConverter &node) {
  auto self = node.tensor("self");
  auto form = node.text("approximate", "none");
  if (failed(self) || failed(form))
    return failure();
  if (*form != "none" && *form != "tanh")
    return node.error() << "has an unknown argument approximate: " << *form;
  return node.define(activation(
      node, *form == "tanh" ? graph::Activation::GeluTanh : graph::Activation::Gelu, *self));
}

static LogicalResult convertHardtanh(AtenConverter &node) {
  auto self = node.tensor("self");
  auto low = node.number("min_val", -1), high = node.number("max_val", 1);
  if (failed(self) || failed(low) || failed(high))
    return failure();
  Tensor bounds[] = {HostTensor::splat(self->element(), {}, *low),
                     HostTensor::splat(self->element(), {}, *high)};
  return node.define(clamp(node, *self, &bounds[0], &bounds[1]));
}

static LogicalResult convertRelu6(AtenConverter &node) {
  return convertActivation<graph::Activation::Relu6>(node);
}

static LogicalResult convertLeakyRelu(AtenConverter &node) {
  auto self = node.tensor("self");
  auto slope = node.number("negative_slope", 0.01);
  if (failed(self) || failed(slope))
    return failure();
  Value x = node.value(*self);
  return node.define(whereAbove(
      node.emit, x, arith::MulFOp::create(node.emit, x, splatLike(node.emit, x, *slope))));
}

static Value scaled(Emitter &emit, Value x, double factor) {
  return factor == 1 ? x : Value(arith::MulFOp::create(emit, x, splatLike(emit, x, factor)));
}

static LogicalResult convertElu(AtenConverter &node) {
  auto self = node.tensor("self");
  auto alpha = node.number("alpha", 1), scale = node.number("scale", 1);
  auto inner = node.number("input_scale", 1);
  if (failed(self) || failed(alpha) || failed(scale) || failed(inner))
    return failure();
  if (*inner != 1)
    return node.error() << "is supported without a scale of its argument only";
  Value result = elu(node.emit, node.value(*self), *alpha);
  return node.define(scaled(node.emit, result, *scale));
}

static LogicalResult convertSelu(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  Value below = elu(node.emit, node.value(*self), 1.67326319217681884765625);
  return node.define(scaled(node.emit, below, 1.05070102214813232421875));
}

/// Each channel, or all, has its own slope below 0.
static LogicalResult convertPRelu(AtenConverter &node) {
  auto self = node.tensor("self"), weight = node.tensor("weight");
  if (failed(self) || failed(weight))
    return failure();
  Shape along(self->rank(), 1);
  const int64_t slopes = product(weight->shape());
  if (slopes != 1 && (self->rank() < 2 || self->shape()[1] != slopes))
    return node.error() << "needs a slope for each channel";
  if (slopes != 1)
    along[1] = slopes;
  auto below = binary(node, "Mul", *self, reshapeTensor(node, *weight, along));
  if (failed(below))
    return failure();
  return node.define(whereAbove(node.emit, node.value(*self), node.value(*below)));
}

/// One half times the sigmoid of the other.
static LogicalResult convertGlu(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  auto dim = node.axisOf("dim", self->rank(), -1);
  if (failed(dim))
    return failure();
  const int64_t half = self->shape()[*dim] / 2;
  if (half * 2 != self->shape()[*dim] || half == 0)
    return node.error() << "cannot halve " << self->shape()[*dim] << " elements";
  auto gate =
      activation(node, graph::Activation::Sigmoid, sliceTensor(node, *self, *dim, half, half));
  return failed(gate)
             ? failure()
             : node.define(binary(node, "Mul", sliceTensor(node, *self, *dim, 0, half), *gate));
}

/// log(sigmoid(x)) = -softplus(-x).
static LogicalResult convertLogSigmoid(AtenConverter &node) {
  auto self = node.tensor("self");
  auto negative = failed(self) ? self : unary(node, "Neg", *self);
  auto soft =
      failed(negative) ? negative : activation(node, graph::Activation::Softplus, *negative);
  return failed(soft) ? failure() : node.define(unary(node, "Neg", *soft));
}

template <typename Op> static LogicalResult convertFloatOp(AtenConverter &node) {
  auto self = node.tensor("self");
  auto input = failed(self) ? self : cast(node, *self, floatFor(self->element()));
  return failed(input) ? failure() : node.define(Op::create(node.emit, node.value(*input)));
}

/// Logarithms of other bases, by that of e.
static LogicalResult convertLogarithm(AtenConverter &node) {
  auto self = node.tensor("self");
  auto input = failed(self) ? self : cast(node, *self, floatFor(self->element()));
  if (failed(input))
    return failure();
  const double base = node.op() == "aten.log2" ? 2 : 10;
  Value log = math::LogOp::create(node.emit, node.value(*input));
  return node.define(scaled(node.emit, log, 1 / std::log(base)));
}

static LogicalResult convertMish(AtenConverter &node) {
  auto self = node.tensor("self");
  return failed(self) ? failure() : node.define(mish(node.emit, node.value(*self)));
}

/// A number that is divided by, 1 where none is given.
static FailureOr<double> divisor(AtenConverter &node, StringRef name) {
  auto number = node.number(name, 1);
  if (succeeded(number) && *number == 0)
    return node.error() << "has a bad " << name << ": 0";
  return number;
}

/// x where beta * x is above the threshold. From 20 on, the default, both are the same number.
static LogicalResult convertSoftplus(AtenConverter &node) {
  auto self = node.tensor("self");
  auto beta = divisor(node, "beta");
  auto threshold = node.number("threshold", 20);
  if (failed(self) || failed(beta) || failed(threshold))
    return failure();
  Value x = node.value(*self), inner = scaled(node.emit, x, *beta);
  auto soft = activation(node, graph::Activation::Softplus, Tensor(inner));
  if (failed(soft))
    return failure();
  Value result = scaled(node.emit, node.value(*soft), 1 / *beta);
  if (*threshold >= 20)
    return node.define(result);
  graph::TensorBuilder b(node.emit, node.emit.getLoc());
  return node.define(b.select(b.compare(arith::CmpFPredicate::OGT, inner, *threshold), x, result));
}

/// max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).
static LogicalResult convertCelu(AtenConverter &node) {
  auto self = node.tensor("self");
  auto alpha = divisor(node, "alpha");
  if (failed(self) || failed(alpha))
    return failure();
  Value x = node.value(*self);
  Value below = elu(node.emit, scaled(node.emit, x, 1 / *alpha), *alpha);
  return node.define(whereAbove(node.emit, x, below));
}

/// x log(y), which is 0 where x is, and there has no gradient of a y without a logarithm.
static LogicalResult convertXLogY(AtenConverter &node) {
  auto self = node.operand("self"), other = node.operand("other");
  if (failed(self) || failed(other))
    return failure();
  const Type type = floatFor(promoted(*self, *other));
  auto left = cast(node, self->tensor, type), right = cast(node, other->tensor, type);
  if (failed(left) || failed(right))
    return failure();
  auto shape = broadcastShapes({left->shape(), right->shape()});
  if (failed(shape))
    return node.error() << "operands of shapes that do not broadcast";
  graph::TensorBuilder b(node.emit, node.emit.getLoc());
  Value x = node.valueAs(*left, *shape), y = node.valueAs(*right, *shape);
  Value isNothing = arith::AndIOp::create(node.emit, b.compare(arith::CmpFPredicate::OEQ, x, 0.0),
                                          b.compare(arith::CmpFPredicate::OLE, y, 0.0));
  return node.define(b.mul(x, b.unary<math::LogOp>(b.selectOr(isNothing, 1.0, y))));
}

/// sin(pi x) / (pi x), which is 1 at 0 and flat there.
static LogicalResult convertSinc(AtenConverter &node) {
  auto self = node.tensor("self");
  auto input = failed(self) ? self : cast(node, *self, floatFor(self->element()));
  if (failed(input))
    return failure();
  graph::TensorBuilder b(node.emit, node.emit.getLoc());
  Value angle = b.scale(node.value(*input), std::numbers::pi);
  Value isZero = b.compare(arith::CmpFPredicate::OEQ, angle, 0.0);
  Value safe = b.selectOr(isZero, 1.0, angle);
  return node.define(b.selectOr(isZero, 1.0, b.div(b.unary<math::SinOp>(safe), safe)));
}

/// x where it is further from 0 than `lambd`, and with a soft edge nearer to 0 by this; else 0.
static LogicalResult convertShrink(AtenConverter &node) {
  auto self = node.tensor("self");
  auto lambda = node.number("lambd", 0.5);
  if (failed(self) || failed(lambda))
    return failure();
  graph::TensorBuilder b(node.emit, node.emit.getLoc());
  const double bias = node.op() == "aten.softshrink" ? *lambda : 0;
  Value x = node.value(*self);
  Value above = b.compare(arith::CmpFPredicate::OGT, x, *lambda),
        below = b.compare(arith::CmpFPredicate::OLT, x, -*lambda);
  Value rest = b.selectOr(above, bias == 0 ? x : b.offset(x, -bias), 0.0);
  return node.define(b.select(below, bias == 0 ? x : b.offset(x, bias), rest));
}

/// x where it is above the threshold, else the value.
static LogicalResult convertThreshold(AtenConverter &node) {
  auto self = node.tensor("self");
  auto threshold = node.number("threshold"), value = node.number("value");
  if (failed(self) || failed(threshold) || failed(value))
    return failure();
  graph::TensorBuilder b(node.emit, node.emit.getLoc());
  Value x = node.value(*self);
  return node.define(b.selectOr(b.compare(arith::CmpFPredicate::OGT, x, *threshold), x, *value));
}

/// In eval mode the slope below 0 is the mean of its bounds.
static LogicalResult convertRRelu(AtenConverter &node) {
  auto self = node.tensor("self");
  auto lower = node.number("lower", 1.0 / 8), upper = node.number("upper", 1.0 / 3);
  auto training = node.boolean("training", false);
  if (failed(self) || failed(lower) || failed(upper) || failed(training))
    return failure();
  if (*training)
    return unsupported(node.error()) << "is supported in eval mode only";
  Value x = node.value(*self);
  return node.define(whereAbove(node.emit, x, scaled(node.emit, x, (*lower + *upper) / 2)));
}

void addActivations(AtenTable &table) {
  using graph::Activation;
  for (const char *op :
       {"aten.neg",   "aten.abs",  "aten.exp",   "aten.log", "aten.sqrt",  "aten.reciprocal",
        "aten.sin",   "aten.cos",  "aten.tanh",  "aten.erf", "aten.floor", "aten.ceil",
        "aten.round", "aten.sign", "aten.isnan", "aten.tan", "aten.asin",  "aten.acos",
        "aten.atan",  "aten.sinh", "aten.cosh"})
    table[op] = convertUnary;
  table["aten.rsqrt"] = convertRsqrt;
  table["aten.relu"] = convertActivation<Activation::Relu>;
  table["aten.relu6"] = convertRelu6;
  table["aten.sigmoid"] = convertActivation<Activation::Sigmoid>;
  table["aten.silu"] = convertActivation<Activation::Silu>;
  table["aten.hardswish"] = convertActivation<Activation::HardSwish>;
  table["aten.hardsigmoid"] = convertActivation<Activation::HardSigmoid>;
  table["aten.softplus"] = convertSoftplus;
  table["aten.gelu"] = convertGelu;
  table["aten.hardtanh"] = convertHardtanh;
  table["aten.leaky_relu"] = convertLeakyRelu;
  table["aten.elu"] = convertElu;
  table["aten.mish"] = convertMish;
  table["aten.selu"] = convertSelu;
  table["aten.prelu"] = convertPRelu;
  table["aten.glu"] = convertGlu;
  table["aten.log_sigmoid"] = convertLogSigmoid;
  table["aten.celu"] = convertCelu;
  table["aten.softshrink"] = table["aten.hardshrink"] = convertShrink;
  table["aten.threshold"] = convertThreshold;
  table["aten.rrelu"] = convertRRelu;
  table["aten.xlogy"] = convertXLogY;
  table["aten.sinc"] = convertSinc;
  table["aten.log1p"] = convertFloatOp<math::Log1pOp>;
  table["aten.expm1"] = convertFloatOp<math::ExpM1Op>;
  table["aten.log2"] = table["aten.log10"] = convertLogarithm;
}

} // namespace dtc::import
