#include "dtc/Import/Build/Elementwise.h"

#include "dtc/Import/Build/HostElementwise.h"
#include "dtc/Import/Unsupported.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace dtc::import {

bool isSplatOf(const Host &host, double value) {
  return host && host->isSplat() && host->number(0) == value;
}

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

/// The remainder of a division whose quotient is rounded down: it has the divisor's sign. That of 0
/// stays as it is, so that the gradient passes there, too.
static Value emitFloatModulo(Emitter &emit, Value a, Value b) {
  using Predicate = arith::CmpFPredicate;
  Value zero = splatLike(emit, b, 0), remainder = arith::RemFOp::create(emit, a, b);
  auto is = [&](Predicate predicate, Value x) -> Value {
    return arith::CmpFOp::create(emit, predicate, x, zero);
  };
  Value differ = arith::XOrIOp::create(emit, is(Predicate::OLT, remainder), is(Predicate::OLT, b));
  Value moves = arith::AndIOp::create(emit, is(Predicate::UNE, remainder), differ);
  return arith::SelectOp::create(emit, moves, arith::AddFOp::create(emit, remainder, b), remainder);
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
  if (op == "Remainder")
    return arith::RemFOp::create(emit, a, b);
  if (op == "Mod")
    return emitFloatModulo(emit, a, b);
  return {};
}

/// Processors trap where integers are divided by zero, and where the least one is divided by -1.
/// The quotient is 0 and -a there, and so is the remainder 0, as in NumPy.
static Value emitDivision(Emitter &emit, StringRef op, Value a, Value b) {
  using Predicate = arith::CmpIPredicate;
  Value zero = splatLike(emit, b, 0), one = splatLike(emit, b, 1);
  auto is = [&](Value x, Predicate predicate, Value y) -> Value {
    return arith::CmpIOp::create(emit, predicate, x, y);
  };
  auto select = [&](Value condition, Value then, Value otherwise) -> Value {
    return arith::SelectOp::create(emit, condition, then, otherwise);
  };
  Value isZero = is(b, Predicate::eq, zero);
  Value isMinusOne = is(b, Predicate::eq, splatLike(emit, b, -1));
  Value safe = select(isZero, one, select(isMinusOne, one, b));
  if (op == "Div") {
    Value quotient = arith::DivSIOp::create(emit, a, safe);
    quotient = select(isMinusOne, arith::SubIOp::create(emit, zero, a), quotient);
    return select(isZero, zero, quotient);
  }
  Value remainder = arith::RemSIOp::create(emit, a, safe);
  if (op == "Remainder")
    return remainder;
  Value differ =
      arith::XOrIOp::create(emit, is(remainder, Predicate::slt, zero), is(b, Predicate::slt, zero));
  Value moves = arith::AndIOp::create(emit, is(remainder, Predicate::ne, zero), differ);
  return select(moves, arith::AddIOp::create(emit, remainder, b), remainder);
}

/// Whether no element is one that integers can't be divided by; see emitDivision.
static bool dividesSafely(const Host &divisor) {
  return divisor && llvm::none_of(divisor->ints, [](int64_t x) { return x == 0 || x == -1; });
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

/// Powers of integers, in f64, which has all that 32 bits hold; those of floats are rounded
/// towards zero. Null for wider ones, which would be rounded.
static Value emitIntPower(Emitter &emit, Value base, const Tensor &exponent, Value exponentValue) {
  if (isSplatOf(exponent.host, 2))
    return arith::MulIOp::create(emit, base, base);
  if (isSplatOf(exponent.host, 3))
    return arith::MulIOp::create(emit, base, arith::MulIOp::create(emit, base, base));
  const bool isExact = elementOf(base).getIntOrFloatBitWidth() <= 32;
  if (!isExact && isa<IntegerType>(elementOf(exponentValue)))
    return {};
  Type wide = emit.getF64Type();
  Value power =
      math::PowFOp::create(emit, castTo(emit, base, wide), castTo(emit, exponentValue, wide));
  return castTo(emit, power, elementOf(base));
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
static Host dominated(StringRef op, const Tensor &lhs, const Tensor &rhs, ArrayRef<int64_t> shape) {
  const double deciding = op == "And" ? 0 : 1;
  if ((op == "And" || op == "Or") &&
      (isSplatOf(lhs.host, deciding) || isSplatOf(rhs.host, deciding)))
    return HostTensor::splat(lhs.element(), Shape(shape), deciding);
  return {};
}

FailureOr<Tensor> binary(Conversion &node, StringRef op, const Tensor &lhs, const Tensor &rhs) {
  if (lhs.element() != rhs.element() && op != "Pow")
    return LogicalResult(node.error() << "operands of different types " << lhs.element() << " and "
                                      << rhs.element());
  auto shape = broadcastShapes({lhs.shape(), rhs.shape()});
  if (failed(shape))
    return LogicalResult(node.error() << "operands of shapes that do not broadcast");
  if (failed(node.checkShape(*shape)))
    return failure();
  const bool same = lhs.element() == rhs.element();
  const bool isUnsigned = lhs.element().isUnsignedInteger() || rhs.element().isUnsignedInteger();
  if (lhs.host && rhs.host && same)
    if (Host constant = evaluateBinary(op, lhs.host, rhs.host))
      return Tensor(constant);
  if (const Tensor *kept = neutral(op, lhs, rhs, *shape))
    return *kept;
  if (Host constant = dominated(op, lhs, rhs, *shape))
    return Tensor(constant);
  if (isUnsigned)
    return LogicalResult(node.error() << "unsigned integers are supported as constants only");
  Emitter &emit = node.emit;
  Value a = node.valueAs(lhs, *shape), b = node.valueAs(rhs, *shape);
  const bool isFloat = isa<FloatType>(lhs.element());
  Value result;
  if (auto predicate = floatPredicate(op)) {
    result = isFloat ? arith::CmpFOp::create(emit, *predicate, a, b).getResult()
                     : arith::CmpIOp::create(emit, intPredicate(op), a, b).getResult();
  } else if (op == "Pow") {
    result = isFloat ? emitPower(emit, a, rhs, castTo(emit, b, lhs.element()))
                     : emitIntPower(emit, a, rhs, b);
    if (!result)
      return LogicalResult(node.error() << "powers of 64-bit integers are supported on constants "
                                           "only");
  } else if (!isFloat &&
             (op == "Mod" || op == "Remainder" || (op == "Div" && !dividesSafely(rhs.host)))) {
    result = emitDivision(emit, op, a, b);
  } else {
    result = isFloat ? emitFloatBinary(emit, op, a, b) : emitIntBinary(emit, op, a, b);
  }
  if (!result)
    return LogicalResult(unsupported(node.error()) << "is not supported on " << lhs.element());
  return Tensor(result);
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

template <typename Op> static Value create(Emitter &emit, Value x) { return Op::create(emit, x); }
using UnaryOp = Value (*)(Emitter &, Value);

static UnaryOp unaryOp(StringRef op) {
  return llvm::StringSwitch<UnaryOp>(op)
      .Case("Neg", create<arith::NegFOp>)
      .Case("Abs", create<math::AbsFOp>)
      .Case("Exp", create<math::ExpOp>)
      .Case("Log", create<math::LogOp>)
      .Case("Sqrt", create<math::SqrtOp>)
      .Case("Sin", create<math::SinOp>)
      .Case("Cos", create<math::CosOp>)
      .Case("Tan", create<math::TanOp>)
      .Case("Asin", create<math::AsinOp>)
      .Case("Acos", create<math::AcosOp>)
      .Case("Atan", create<math::AtanOp>)
      .Case("Sinh", create<math::SinhOp>)
      .Case("Cosh", create<math::CoshOp>)
      .Case("Tanh", create<math::TanhOp>)
      .Case("Asinh", create<math::AsinhOp>)
      .Case("Acosh", create<math::AcoshOp>)
      .Case("Atanh", create<math::AtanhOp>)
      .Case("Erf", create<math::ErfOp>)
      .Case("Floor", create<math::FloorOp>)
      .Case("Ceil", create<math::CeilOp>)
      .Case("Round", create<math::RoundEvenOp>)
      .Case("Sign", emitSign)
      .Default(nullptr);
}

static Value emitUnary(Emitter &emit, StringRef op, Value x) {
  if (UnaryOp make = unaryOp(op))
    return make(emit, x);
  if (op == "Reciprocal")
    return arith::DivFOp::create(emit, splatLike(emit, x, 1), x);
  if (op == "IsNaN") // the only value that differs from itself
    return arith::CmpFOp::create(emit, arith::CmpFPredicate::UNE, x, x);
  return {};
}

static Value emitIntUnary(Emitter &emit, StringRef op, Value x) {
  Value zero = splatLike(emit, x, 0);
  auto is = [&](arith::CmpIPredicate predicate) -> Value {
    return arith::CmpIOp::create(emit, predicate, x, zero);
  };
  if (op == "Neg")
    return arith::SubIOp::create(emit, zero, x);
  if (op == "Abs")
    return arith::MaxSIOp::create(emit, x, arith::SubIOp::create(emit, zero, x));
  if (op == "BitwiseNot")
    return arith::XOrIOp::create(emit, x, splatLike(emit, x, -1));
  if (op == "Sign") {
    Value below =
        arith::SelectOp::create(emit, is(arith::CmpIPredicate::slt), splatLike(emit, x, -1), zero);
    return arith::SelectOp::create(emit, is(arith::CmpIPredicate::sgt), splatLike(emit, x, 1),
                                   below);
  }
  return {};
}

FailureOr<Tensor> unary(Conversion &node, StringRef op, const Tensor &input) {
  if (input.host)
    if (Host constant = evaluateUnary(op, input.host))
      return Tensor(constant);
  Emitter &emit = node.emit;
  Value x = node.value(input);
  Value result;
  if (op == "Not" && input.element().isInteger(1))
    result = arith::XOrIOp::create(emit, x, splatLike(emit, x, 1));
  else if (input.element().isSignlessInteger() && !input.element().isInteger(1))
    result = emitIntUnary(emit, op, x);
  else if (isa<FloatType>(input.element()))
    result = emitUnary(emit, op, x);
  if (!result)
    return LogicalResult(unsupported(node.error()) << "is not supported on " << input.element());
  return Tensor(result);
}

FailureOr<Tensor> activation(Conversion &node, graph::Activation kind, const Tensor &input) {
  if (!isa<FloatType>(input.element()))
    return LogicalResult(unsupported(node.error()) << "is not supported on " << input.element());
  if (input.host && kind == graph::Activation::Relu)
    return binary(node, "Max", input, Tensor(HostTensor::splat(input.element(), {}, 0)));
  Value x = node.value(input);
  return Tensor(graph::ActivationOp::create(node.emit, x.getType(), kind, x).getResult());
}

/// The bound where x isn't within it, else x: an op of extremes would halve the gradient of ties.
static FailureOr<Tensor> bounded(Conversion &node, const Tensor &x, const Tensor &bound,
                                 bool isLow) {
  if (!isa<FloatType>(x.element()) || (x.host && bound.host))
    return binary(node, isLow ? "Max" : "Min", x, bound);
  auto shape = broadcastShapes({x.shape(), bound.shape()});
  if (failed(shape) || x.element() != bound.element())
    return LogicalResult(node.error() << "has bounds that do not fit");
  const auto met = isLow ? arith::CmpFPredicate::OLE : arith::CmpFPredicate::OGE;
  Value inner = node.valueAs(x, *shape), outer = node.valueAs(bound, *shape);
  Value meets = arith::CmpFOp::create(node.emit, met, inner, outer);
  return Tensor(arith::SelectOp::create(node.emit, meets, outer, inner).getResult());
}

FailureOr<Tensor> clamp(Conversion &node, const Tensor &input, const Tensor *low,
                        const Tensor *high) {
  const bool isFloat = isa<FloatType>(input.element());
  if (isFloat && low && high && isSplatOf(low->host, 0) && isSplatOf(high->host, 6))
    return activation(node, graph::Activation::Relu6, input);
  FailureOr<Tensor> result = input;
  if (low)
    result = bounded(node, *result, *low, /*isLow=*/true);
  if (high && succeeded(result))
    result = bounded(node, *result, *high, /*isLow=*/false);
  return result;
}

FailureOr<Tensor> select(Conversion &node, const Tensor &condition, const Tensor &lhs,
                         const Tensor &rhs) {
  if (!condition.element().isInteger(1) || lhs.element() != rhs.element())
    return LogicalResult(node.error() << "operands of unexpected types");
  auto shape = broadcastShapes({condition.shape(), lhs.shape(), rhs.shape()});
  if (failed(shape))
    return LogicalResult(node.error() << "operands of shapes that do not broadcast");
  if (condition.host && lhs.host && rhs.host)
    if (Host constant = evaluateWhere(condition.host, lhs.host, rhs.host))
      return Tensor(constant);
  if (condition.host && condition.host->isSplat()) {
    const Tensor &chosen = condition.host->ints[0] ? lhs : rhs;
    return chosen.host ? Tensor(expandHost(chosen.host, *shape))
                       : Tensor(node.valueAs(chosen, *shape));
  }
  return Tensor(arith::SelectOp::create(node.emit, node.valueAs(condition, *shape),
                                        node.valueAs(lhs, *shape), node.valueAs(rhs, *shape))
                    .getResult());
}

FailureOr<Tensor> cast(Conversion &node, const Tensor &input, Type to) {
  if (input.host)
    if (Host constant = evaluateCast(input.host, to))
      return Tensor(constant);
  if (to.isUnsignedInteger() || input.element().isUnsignedInteger())
    return LogicalResult(node.error() << "unsigned integers are supported as constants only");
  if (to.isInteger(16))
    return LogicalResult(node.error() << "integers of 16 bits are supported as constants only");
  return Tensor(castTo(node.emit, node.value(input), to));
}

Value whereAbove(Emitter &emit, Value x, Value below) {
  Value positive = arith::CmpFOp::create(emit, arith::CmpFPredicate::OGT, x, splatLike(emit, x, 0));
  return arith::SelectOp::create(emit, positive, x, below);
}

Value mish(Emitter &emit, Value x) {
  Value y = graph::ActivationOp::create(emit, x.getType(), graph::Activation::Softplus, x);
  return arith::MulFOp::create(emit, x, math::TanhOp::create(emit, y));
}

Value elu(Emitter &emit, Value x, double alpha) {
  // Of what isn't taken the exponential must be finite, as gradients pass through it.
  Value positive = arith::CmpFOp::create(emit, arith::CmpFPredicate::OGT, x, splatLike(emit, x, 0));
  Value negative = arith::SelectOp::create(emit, positive, splatLike(emit, x, 0), x);
  Value below = math::ExpM1Op::create(emit, negative);
  return whereAbove(emit, x, arith::MulFOp::create(emit, below, splatLike(emit, x, alpha)));
}

} // namespace dtc::import
