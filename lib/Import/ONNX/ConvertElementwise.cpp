// Operators that act element by element: arithmetic, comparison, activations.
#include "GraphBuilder.h"
#include "HostElementwise.h"
#include "Tensors.h"

#include "llvm/ADT/StringSwitch.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace dtc::import {

/// x^exponent by products where that is exact enough, else by math.powf.
static Value emitPower(Emitter &emit, Value base, const Tensor &exponent, Value exponentValue) {
  if (exponent.host && exponent.host->isSplat()) {
    const double power = exponent.host->number(0);
    auto square = [&] { return arith::MulFOp::create(emit, base, base).getResult(); };
    if (power == 1)
      return base;
    if (power == 2)
      return square();
    if (power == 3)
      return arith::MulFOp::create(emit, square(), base);
    if (power == 0.5)
      return math::SqrtOp::create(emit, base);
    if (power == -0.5)
      return math::RsqrtOp::create(emit, base);
  }
  return math::PowFOp::create(emit, base, exponentValue);
}

static std::optional<arith::CmpFPredicate> floatPredicate(StringRef op) {
  using P = arith::CmpFPredicate;
  return llvm::StringSwitch<std::optional<P>>(op)
      .Case("Equal", P::OEQ)
      .Case("Less", P::OLT)
      .Case("LessOrEqual", P::OLE)
      .Case("Greater", P::OGT)
      .Case("GreaterOrEqual", P::OGE)
      .Default(std::nullopt);
}

static arith::CmpIPredicate intPredicate(StringRef op) {
  using P = arith::CmpIPredicate;
  return llvm::StringSwitch<P>(op)
      .Case("Equal", P::eq)
      .Case("Less", P::slt)
      .Case("LessOrEqual", P::sle)
      .Case("Greater", P::sgt)
      .Default(P::sge);
}

static Value emitFloatBinary(Emitter &emit, StringRef op, Value a, Value b) {
  if (op == "Add")
    return arith::AddFOp::create(emit, a, b);
  if (op == "Sub")
    return arith::SubFOp::create(emit, a, b);
  if (op == "Mul")
    return arith::MulFOp::create(emit, a, b);
  if (op == "Div")
    return arith::DivFOp::create(emit, a, b);
  if (op == "Max")
    return arith::MaximumFOp::create(emit, a, b);
  if (op == "Min")
    return arith::MinimumFOp::create(emit, a, b);
  return {};
}

static Value emitIntBinary(Emitter &emit, StringRef op, Value a, Value b) {
  if (op == "Add")
    return arith::AddIOp::create(emit, a, b);
  if (op == "Sub")
    return arith::SubIOp::create(emit, a, b);
  if (op == "Mul")
    return arith::MulIOp::create(emit, a, b);
  if (op == "Div")
    return arith::DivSIOp::create(emit, a, b);
  if (op == "Max")
    return arith::MaxSIOp::create(emit, a, b);
  if (op == "Min")
    return arith::MinSIOp::create(emit, a, b);
  if (op == "And" || op == "BitwiseAnd")
    return arith::AndIOp::create(emit, a, b);
  if (op == "Or" || op == "BitwiseOr")
    return arith::OrIOp::create(emit, a, b);
  if (op == "Xor" || op == "BitwiseXor")
    return arith::XOrIOp::create(emit, a, b);
  return {};
}

static bool isSplatOf(const Host &host, double value) {
  return host && host->isSplat() && host->number(0) == value;
}

/// `x op constant` where it is x itself: nothing is emitted for it.
static const Tensor *neutral(StringRef op, const Tensor &lhs, const Tensor &rhs,
                             ArrayRef<int64_t> shape) {
  const bool bit = lhs.element().isInteger(1);
  auto keeps = [&](const Tensor &kept, const Tensor &other) {
    return kept.value && ArrayRef(kept.shape()) == shape && other.host &&
           ((op == "Mul" && isSplatOf(other.host, 1)) ||
            // Not for floats: -0 + 0 is 0.
            (op == "Add" && !other.host->isFloat() && isSplatOf(other.host, 0)) ||
            (op == "And" && bit && isSplatOf(other.host, 1)) ||
            (op == "Or" && bit && isSplatOf(other.host, 0)));
  };
  if (keeps(lhs, rhs) || ((op == "Div" || op == "Pow") && lhs.value && isSplatOf(rhs.host, 1) &&
                          ArrayRef(lhs.shape()) == shape))
    return &lhs;
  return keeps(rhs, lhs) ? &rhs : nullptr;
}

/// And/Or with a constant that decides.
static Host dominated(StringRef op, const Tensor &lhs, const Tensor &rhs,
                      ArrayRef<int64_t> shape) {
  const double deciding = op == "And" ? 0 : 1;
  if ((op == "And" || op == "Or") &&
      (isSplatOf(lhs.host, deciding) || isSplatOf(rhs.host, deciding)))
    return HostTensor::splat(lhs.element(), Shape(shape), deciding);
  return {};
}

static FailureOr<Tensor> binary(NodeConverter &node, StringRef op, const Tensor &lhs,
                                const Tensor &rhs) {
  if (lhs.element() != rhs.element() && op != "Pow")
    return node.error() << "operands of different types " << lhs.element() << " and "
                        << rhs.element();
  auto shape = broadcastShapes({lhs.shape(), rhs.shape()});
  if (failed(shape))
    return node.error() << "operands of shapes that do not broadcast";
  if (failed(node.checkShape(*shape)))
    return failure();
  const bool same = lhs.element() == rhs.element();
  if (lhs.host && rhs.host && same)
    if (Host constant = evaluateBinary(op, lhs.host, rhs.host))
      return Tensor(constant);
  if (const Tensor *kept = neutral(op, lhs, rhs, *shape))
    return *kept;
  if (Host constant = dominated(op, lhs, rhs, *shape))
    return Tensor(constant);
  Emitter &emit = node.emit;
  Value a = node.valueAs(lhs, *shape), b = node.valueAs(rhs, *shape);
  const bool isFloat = isa<FloatType>(lhs.element());
  Value result;
  if (auto predicate = floatPredicate(op)) {
    result = isFloat ? arith::CmpFOp::create(emit, *predicate, a, b).getResult()
                     : arith::CmpIOp::create(emit, intPredicate(op), a, b).getResult();
  } else if (op == "Pow") {
    if (!isFloat)
      return node.error() << "integer powers are supported on constants only";
    result = emitPower(emit, a, rhs, castTo(emit, b, lhs.element()));
  } else {
    result = isFloat ? emitFloatBinary(emit, op, a, b) : emitIntBinary(emit, op, a, b);
  }
  if (!result)
    return node.error() << "is not supported on " << lhs.element();
  return Tensor(result);
}

static LogicalResult convertBinary(NodeConverter &node) {
  auto result = binary(node, node.op(), node.input(0), node.input(1));
  return failed(result) ? failure() : node.define(*result);
}

/// Max, Min and Sum take any number of operands.
static LogicalResult convertVariadic(NodeConverter &node) {
  const std::string op = node.op() == "Sum" ? "Add" : node.op();
  if (node.numInputs() == 0)
    return node.error() << "has no operands";
  Tensor result = node.input(0);
  for (int i = 1; i < node.numInputs(); ++i) {
    auto next = binary(node, op, result, node.input(i));
    if (failed(next) || failed(node.chargeNodes(1)) || failed(node.chargeFolded(*next)))
      return failure();
    result = *next;
  }
  return node.define(result);
}

static LogicalResult convertMod(NodeConverter &node) {
  const Tensor &lhs = node.input(0), &rhs = node.input(1);
  if (isa<FloatType>(lhs.element()) || !lhs.host || !rhs.host || node.attrInt("fmod", 0))
    return node.error() << "is supported on integer constants only";
  return convertBinary(node);
}

static Value emitSign(Emitter &emit, Value x) {
  Value zero = splatLike(emit, x, 0);
  auto is = [&](arith::CmpFPredicate predicate, double then) {
    Value condition = arith::CmpFOp::create(emit, predicate, x, zero);
    return arith::SelectOp::create(emit, condition, splatLike(emit, x, then), zero).getResult();
  };
  return arith::AddFOp::create(emit, is(arith::CmpFPredicate::OGT, 1),
                               is(arith::CmpFPredicate::OLT, -1));
}

static Value emitUnary(Emitter &emit, StringRef op, Value x) {
  if (op == "Neg")
    return arith::NegFOp::create(emit, x);
  if (op == "Abs")
    return math::AbsFOp::create(emit, x);
  if (op == "Exp")
    return math::ExpOp::create(emit, x);
  if (op == "Log")
    return math::LogOp::create(emit, x);
  if (op == "Sqrt")
    return math::SqrtOp::create(emit, x);
  if (op == "Reciprocal")
    return arith::DivFOp::create(emit, splatLike(emit, x, 1), x);
  if (op == "Sin")
    return math::SinOp::create(emit, x);
  if (op == "Cos")
    return math::CosOp::create(emit, x);
  if (op == "Tanh")
    return math::TanhOp::create(emit, x);
  if (op == "Erf")
    return math::ErfOp::create(emit, x);
  if (op == "Floor")
    return math::FloorOp::create(emit, x);
  if (op == "Ceil")
    return math::CeilOp::create(emit, x);
  if (op == "Round")
    return math::RoundEvenOp::create(emit, x);
  if (op == "Sign")
    return emitSign(emit, x);
  if (op == "IsNaN") // the only value that differs from itself
    return arith::CmpFOp::create(emit, arith::CmpFPredicate::UNE, x, x);
  return {};
}

static LogicalResult convertUnary(NodeConverter &node) {
  const Tensor &input = node.input(0);
  if (input.host)
    if (Host constant = evaluateUnary(node.op(), input.host))
      return node.define(Tensor(constant));
  Emitter &emit = node.emit;
  Value x = node.value(0);
  Value result;
  if (node.op() == "Not" && input.element().isInteger(1))
    result = arith::XOrIOp::create(emit, x, splatLike(emit, x, 1));
  else if (node.op() == "Neg" && isa<IntegerType>(input.element()))
    result = arith::SubIOp::create(emit, splatLike(emit, x, 0), x);
  else if (isa<FloatType>(input.element()))
    result = emitUnary(emit, node.op(), x);
  if (!result)
    return node.error() << "is not supported on " << input.element();
  return node.define(result);
}

static LogicalResult convertIsInf(NodeConverter &node) {
  if (!isa<FloatType>(node.input(0).element()) || !node.attrInt("detect_negative", 1) ||
      !node.attrInt("detect_positive", 1))
    return node.error() << "is supported on floats and infinities of both signs only";
  Emitter &emit = node.emit;
  Value size = math::AbsFOp::create(emit, node.value(0));
  Value infinity = splatLike(emit, size, std::numeric_limits<double>::infinity());
  return node.define(
      arith::CmpFOp::create(emit, arith::CmpFPredicate::OEQ, size, infinity).getResult());
}

static LogicalResult activation(NodeConverter &node, graph::Activation kind) {
  if (!isa<FloatType>(node.input(0).element()))
    return node.error() << "is not supported on " << node.input(0).element();
  Value x = node.value(0);
  return node.define(
      graph::ActivationOp::create(node.emit, x.getType(), kind, x).getResult());
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

/// x where x > 0, else `below`.
static LogicalResult defineAbove(NodeConverter &node, Value x, Value below) {
  Emitter &emit = node.emit;
  Value positive =
      arith::CmpFOp::create(emit, arith::CmpFPredicate::OGT, x, splatLike(emit, x, 0));
  return node.define(arith::SelectOp::create(emit, positive, x, below).getResult());
}

static LogicalResult convertLeakyRelu(NodeConverter &node) {
  Value x = node.value(0);
  Value slope = splatLike(node.emit, x, node.attrFloat("alpha", 0.01f));
  return defineAbove(node, x, arith::MulFOp::create(node.emit, x, slope));
}

static LogicalResult convertPRelu(NodeConverter &node) {
  const Tensor &input = node.input(0), &slope = node.input(1);
  auto shape = broadcastShapes({input.shape(), slope.shape()});
  if (!isa<FloatType>(input.element()) || slope.element() != input.element() || failed(shape) ||
      *shape != input.shape())
    return node.error() << "needs floats and a slope that broadcasts to its input";
  Value x = node.value(0);
  return defineAbove(node, x, arith::MulFOp::create(node.emit, x, node.valueAs(slope, *shape)));
}

/// x * tanh(softplus(x)).
static LogicalResult convertMish(NodeConverter &node) {
  if (!isa<FloatType>(node.input(0).element()))
    return node.error() << "is not supported on " << node.input(0).element();
  Value x = node.value(0);
  Value y = graph::ActivationOp::create(node.emit, x.getType(), graph::Activation::Softplus, x);
  y = math::TanhOp::create(node.emit, y);
  return node.define(arith::MulFOp::create(node.emit, x, y).getResult());
}

static LogicalResult convertElu(NodeConverter &node) {
  Value x = node.value(0);
  Value below = math::ExpM1Op::create(node.emit, x);
  below = arith::MulFOp::create(node.emit, below,
                                splatLike(node.emit, x, node.attrFloat("alpha", 1)));
  return defineAbove(node, x, below);
}

static LogicalResult convertClip(NodeConverter &node) {
  const Tensor &input = node.input(0);
  const bool isFloat = isa<FloatType>(input.element());
  if (isFloat && isSplatOf(node.host(1), 0) && isSplatOf(node.host(2), 6))
    return activation(node, graph::Activation::Relu6);
  Tensor result = input;
  for (int bound : {1, 2})
    if (node.has(bound)) {
      auto clipped = binary(node, bound == 1 ? "Max" : "Min", result, node.input(bound));
      if (failed(clipped))
        return failure();
      result = *clipped;
    }
  return node.define(result);
}

static LogicalResult convertWhere(NodeConverter &node) {
  const Tensor &condition = node.input(0), &lhs = node.input(1), &rhs = node.input(2);
  if (!condition.element().isInteger(1) || lhs.element() != rhs.element())
    return node.error() << "operands of unexpected types";
  auto shape = broadcastShapes({condition.shape(), lhs.shape(), rhs.shape()});
  if (failed(shape))
    return node.error() << "operands of shapes that do not broadcast";
  if (node.allHost())
    if (Host constant = evaluateWhere(condition.host, lhs.host, rhs.host))
      return node.define(Tensor(constant));
  if (condition.host && condition.host->isSplat()) {
    const Tensor &chosen = condition.host->ints[0] ? lhs : rhs;
    return node.define(chosen.host ? Tensor(expandHost(chosen.host, *shape))
                                   : Tensor(node.valueAs(chosen, *shape)));
  }
  return node.define(arith::SelectOp::create(node.emit, node.valueAs(condition, *shape),
                                             node.valueAs(lhs, *shape), node.valueAs(rhs, *shape))
                         .getResult());
}

static LogicalResult convertCast(NodeConverter &node) {
  Type to = node.op() == "CastLike"
                ? node.input(1).element()
                : elementType(node.emit.getContext(), node.attrInt("to", 0));
  if (!to)
    return node.error() << "to an unsupported type: " << node.attrInt("to", 0);
  const Tensor &input = node.input(0);
  if (input.host)
    if (Host constant = evaluateCast(input.host, to))
      return node.define(Tensor(constant));
  if (to.isUnsignedInteger() || input.element().isUnsignedInteger())
    return node.error() << "unsigned integers are supported as constants only";
  return node.define(castTo(node.emit, node.value(0), to));
}

void addElementwiseConverters(ConverterTable &table) {
  for (const char *op : {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Less",
                         "LessOrEqual", "Greater", "GreaterOrEqual", "BitwiseAnd", "BitwiseOr",
                         "BitwiseXor"})
    table[op] = convertBinary;
  for (const char *op : {"Max", "Min", "Sum"})
    table[op] = convertVariadic;
  for (const char *op : {"Neg", "Abs", "Exp", "Log", "Sqrt", "Reciprocal", "Sin", "Cos", "Tanh",
                         "Erf", "Floor", "Ceil", "Round", "Sign", "IsNaN", "Not"})
    table[op] = convertUnary;
  using graph::Activation;
  table["Relu"] = [](NodeConverter &n) { return activation(n, Activation::Relu); };
  table["Sigmoid"] = [](NodeConverter &n) { return activation(n, Activation::Sigmoid); };
  table["Softplus"] = [](NodeConverter &n) { return activation(n, Activation::Softplus); };
  table["HardSwish"] = [](NodeConverter &n) { return activation(n, Activation::HardSwish); };
  table["Swish"] = [](NodeConverter &n) {
    if (n.attrFloat("alpha", 1) != 1)
      return LogicalResult(n.error() << "is supported with alpha 1 only");
    return activation(n, Activation::Silu);
  };
  table["Gelu"] = convertGelu;
  table["HardSigmoid"] = convertHardSigmoid;
  table["LeakyRelu"] = convertLeakyRelu;
  table["PRelu"] = convertPRelu;
  table["Elu"] = convertElu;
  table["Mish"] = convertMish;
  table["Clip"] = convertClip;
  table["Where"] = convertWhere;
  table["Cast"] = convertCast;
  table["CastLike"] = convertCast;
  table["Mod"] = convertMod;
  table["IsInf"] = convertIsInf;
}

} // namespace dtc::import
