// Operators that act element by element: arithmetic, comparison, activations.
#include "GraphBuilder.h"
#include "Tensors.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Unsupported.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace dtc::import {

static LogicalResult convertBinary(NodeConverter &node) {
  return node.define(binary(node, node.op(), node.input(0), node.input(1)));
}

/// Max, Min and Sum take any number of operands.
static LogicalResult convertVariadic(NodeConverter &node) {
  const std::string op = node.op() == "Sum" ? "Add" : node.op();
  Tensor result = node.input(0);
  for (int i = 1; i < node.numInputs(); ++i) {
    auto next = binary(node, op, result, node.input(i));
    if (failed(next) || failed(node.chargeNodes(1)) || failed(node.chargeFolded(*next)))
      return failure();
    result = *next;
  }
  return node.define(result);
}

/// The remainder has the sign of the divisor or, if asked, that of the dividend.
static LogicalResult convertMod(NodeConverter &node) {
  const bool ofDividend = node.attrInt("fmod", 0);
  return node.define(binary(node, ofDividend ? "Remainder" : "Mod", node.input(0), node.input(1)));
}

static LogicalResult convertUnary(NodeConverter &node) {
  return node.define(unary(node, node.op(), node.input(0)));
}

static LogicalResult convertIsInf(NodeConverter &node) {
  if (!isa<FloatType>(node.input(0).element()))
    return unsupported(node.error()) << "is not supported on " << node.input(0).element();
  graph::TensorBuilder b(node.emit, node.emit.getLoc());
  const bool negative = node.attrInt("detect_negative", 1);
  const bool positive = node.attrInt("detect_positive", 1);
  const double infinity = std::numeric_limits<double>::infinity();
  Value x = node.value(0);
  if (negative && positive)
    x = math::AbsFOp::create(node.emit, x);
  else if (negative)
    x = b.negate(x);
  if (!negative && !positive) // none is looked for
    return node.define(
        Tensor(HostTensor::splat(node.emit.getI1Type(), node.input(0).shape(), false)));
  return node.define(b.compare(arith::CmpFPredicate::OEQ, x, infinity));
}

static LogicalResult activation(NodeConverter &node, graph::Activation kind) {
  return node.define(activation(node, kind, node.input(0)));
}

static LogicalResult convertGelu(NodeConverter &node) {
  const std::string form = node.attrString("approximate", "none");
  if (form != "none" && form != "tanh")
    return node.error() << "has an unknown attribute approximate: " << form;
  return activation(node, form == "tanh" ? graph::Activation::GeluTanh : graph::Activation::Gelu);
}

/// max(0, min(1, alpha * x + beta)), one op for PyTorch's alpha = 1/6.
static LogicalResult convertHardSigmoid(NodeConverter &node) {
  const double alpha = node.attrFloat("alpha", 0.2f), beta = node.attrFloat("beta", 0.5);
  if (std::fabs(alpha - 1.0 / 6) < 1e-7 && beta == 0.5)
    return activation(node, graph::Activation::HardSigmoid);
  Emitter &emit = node.emit;
  Value x = node.value(0);
  x = arith::MulFOp::create(emit, x, splatLike(emit, x, alpha));
  x = arith::AddFOp::create(emit, x, splatLike(emit, x, beta));
  x = arith::MinimumFOp::create(emit, x, splatLike(emit, x, 1));
  return node.define(arith::MaximumFOp::create(emit, x, splatLike(emit, x, 0)).getResult());
}

static LogicalResult convertLeakyRelu(NodeConverter &node) {
  Value x = node.value(0);
  Value slope = splatLike(node.emit, x, node.attrFloat("alpha", 0.01f));
  return node.define(whereAbove(node.emit, x, arith::MulFOp::create(node.emit, x, slope)));
}

static LogicalResult convertPRelu(NodeConverter &node) {
  const Tensor &input = node.input(0), &slope = node.input(1);
  auto shape = broadcastShapes({input.shape(), slope.shape()});
  if (!isa<FloatType>(input.element()) || slope.element() != input.element() || failed(shape) ||
      *shape != input.shape())
    return node.error() << "needs floats and a slope that broadcasts to its input";
  Value x = node.value(0);
  Value below = arith::MulFOp::create(node.emit, x, node.valueAs(slope, *shape));
  return node.define(whereAbove(node.emit, x, below));
}

static LogicalResult convertMish(NodeConverter &node) {
  if (!isa<FloatType>(node.input(0).element()))
    return unsupported(node.error()) << "is not supported on " << node.input(0).element();
  return node.define(mish(node.emit, node.value(0)));
}

static LogicalResult convertElu(NodeConverter &node) {
  return node.define(elu(node.emit, node.value(0), node.attrFloat("alpha", 1)));
}

/// Before opset 11 the bounds are attributes.
static LogicalResult convertClip(NodeConverter &node) {
  const Tensor *bounds[2] = {};
  Tensor constants[2];
  for (int i = 0; i < 2; ++i) {
    const char *name = i == 0 ? "min" : "max";
    if (node.has(i + 1)) {
      bounds[i] = &node.input(i + 1);
    } else if (node.attribute(name)) {
      constants[i] =
          Tensor(HostTensor::splat(node.input(0).element(), {}, node.attrFloat(name, 0)));
      bounds[i] = &constants[i];
    }
  }
  return node.define(clamp(node, node.input(0), bounds[0], bounds[1]));
}

static LogicalResult convertWhere(NodeConverter &node) {
  return node.define(select(node, node.input(0), node.input(1), node.input(2)));
}

static LogicalResult convertCast(NodeConverter &node) {
  Type to = node.op() == "CastLike"
                ? node.input(1).element()
                : elementType(node.emit.getContext(), node.attrInt("to", 0));
  if (!to)
    return unsupported(node.error()) << "to an unsupported type: " << node.attrInt("to", 0);
  return node.define(cast(node, node.input(0), to));
}

void addElementwiseConverters(ConverterTable &table) {
  for (const char *op : {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Less",
                         "LessOrEqual", "Greater", "GreaterOrEqual", "BitwiseAnd", "BitwiseOr",
                         "BitwiseXor"})
    table[op] = {convertBinary, 2};
  for (const char *op : {"Max", "Min", "Sum"})
    table[op] = Operator(convertVariadic).listsFrom(0);
  for (const char *op :
       {"Neg",  "Abs",   "Exp",  "Log",   "Sqrt", "Reciprocal", "Sin",   "Cos",        "Tanh",
        "Erf",  "Floor", "Ceil", "Round", "Sign", "IsNaN",      "Not",   "BitwiseNot", "Tan",
        "Asin", "Acos",  "Atan", "Sinh",  "Cosh", "Asinh",      "Acosh", "Atanh"})
    table[op] = convertUnary;
  using graph::Activation;
  table["Relu"] = {[](NodeConverter &n) { return activation(n, Activation::Relu); }};
  table["Sigmoid"] = {[](NodeConverter &n) { return activation(n, Activation::Sigmoid); }};
  table["Softplus"] = {[](NodeConverter &n) { return activation(n, Activation::Softplus); }};
  table["HardSwish"] = {[](NodeConverter &n) { return activation(n, Activation::HardSwish); }};
  table["Gelu"] = convertGelu;
  table["HardSigmoid"] = convertHardSigmoid;
  table["LeakyRelu"] = convertLeakyRelu;
  table["PRelu"] = {convertPRelu, 2};
  table["Elu"] = convertElu;
  table["Mish"] = convertMish;
  table["Clip"] = convertClip;
  table["Where"] = {convertWhere, 3};
  table["Cast"] = convertCast;
  table["CastLike"] = {convertCast, 2};
  table["Mod"] = {convertMod, 2};
  table["IsInf"] = convertIsInf;
}

} // namespace dtc::import
