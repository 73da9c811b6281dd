// The arith and math ops, element by element.
#include "Kernels.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace dtc::interpreter {

using FloatUnary = double (*)(double);
using FloatBinary = double (*)(double, double);
using FloatPredicate = bool (*)(double, double);
/// Operands as the op sees them, signed or unsigned; the result wraps.
using IntBinary = int64_t (*)(int64_t, int64_t);

//===-- floats ------------------------------------------------------------===//

static FloatUnary exponentialFunction(Operation *op) {
  return TypeSwitch<Operation *, FloatUnary>(op)
      .Case([](math::ExpOp) { return [](double x) { return std::exp(x); }; })
      .Case([](math::Exp2Op) { return [](double x) { return std::exp2(x); }; })
      .Case([](math::ExpM1Op) { return [](double x) { return std::expm1(x); }; })
      .Case([](math::LogOp) { return [](double x) { return std::log(x); }; })
      .Case([](math::Log2Op) { return [](double x) { return std::log2(x); }; })
      .Case([](math::Log10Op) { return [](double x) { return std::log10(x); }; })
      .Case([](math::Log1pOp) { return [](double x) { return std::log1p(x); }; })
      .Case([](math::SqrtOp) { return [](double x) { return std::sqrt(x); }; })
      .Case([](math::RsqrtOp) { return [](double x) { return 1.0 / std::sqrt(x); }; })
      .Case([](math::CbrtOp) { return [](double x) { return std::cbrt(x); }; })
      .Case([](math::ErfOp) { return [](double x) { return std::erf(x); }; })
      .Case([](math::ErfcOp) { return [](double x) { return std::erfc(x); }; })
      .Default(FloatUnary(nullptr));
}

static FloatUnary trigonometricFunction(Operation *op) {
  return TypeSwitch<Operation *, FloatUnary>(op)
      .Case([](math::SinOp) { return [](double x) { return std::sin(x); }; })
      .Case([](math::CosOp) { return [](double x) { return std::cos(x); }; })
      .Case([](math::TanOp) { return [](double x) { return std::tan(x); }; })
      .Case([](math::AsinOp) { return [](double x) { return std::asin(x); }; })
      .Case([](math::AcosOp) { return [](double x) { return std::acos(x); }; })
      .Case([](math::AtanOp) { return [](double x) { return std::atan(x); }; })
      .Case([](math::SinhOp) { return [](double x) { return std::sinh(x); }; })
      .Case([](math::CoshOp) { return [](double x) { return std::cosh(x); }; })
      .Case([](math::TanhOp) { return [](double x) { return std::tanh(x); }; })
      .Case([](math::AsinhOp) { return [](double x) { return std::asinh(x); }; })
      .Case([](math::AcoshOp) { return [](double x) { return std::acosh(x); }; })
      .Case([](math::AtanhOp) { return [](double x) { return std::atanh(x); }; })
      .Default(FloatUnary(nullptr));
}

static FloatUnary unaryFunction(Operation *op) {
  if (FloatUnary function = exponentialFunction(op))
    return function;
  if (FloatUnary function = trigonometricFunction(op))
    return function;
  return TypeSwitch<Operation *, FloatUnary>(op)
      .Case([](arith::NegFOp) { return [](double x) { return -x; }; })
      .Case([](math::AbsFOp) { return [](double x) { return std::fabs(x); }; })
      .Case([](math::CeilOp) { return [](double x) { return std::ceil(x); }; })
      .Case([](math::FloorOp) { return [](double x) { return std::floor(x); }; })
      .Case([](math::RoundOp) { return [](double x) { return std::round(x); }; })
      .Case([](math::RoundEvenOp) { return [](double x) { return std::nearbyint(x); }; })
      .Case([](math::TruncOp) { return [](double x) { return std::trunc(x); }; })
      // Rounded to the result's type afterwards, as everything is.
      .Case<arith::ExtFOp, arith::TruncFOp>([](auto) { return [](double x) { return x; }; })
      .Default(FloatUnary(nullptr));
}

static double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return std::numeric_limits<double>::quiet_NaN();
  return a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
}

static FloatBinary binaryFunction(Operation *op) {
  using D = double;
  return TypeSwitch<Operation *, FloatBinary>(op)
      .Case([](arith::AddFOp) { return [](D a, D b) { return a + b; }; })
      .Case([](arith::SubFOp) { return [](D a, D b) { return a - b; }; })
      .Case([](arith::MulFOp) { return [](D a, D b) { return a * b; }; })
      .Case([](arith::DivFOp) { return [](D a, D b) { return a / b; }; })
      .Case([](arith::RemFOp) { return [](D a, D b) { return std::fmod(a, b); }; })
      .Case([](arith::MaximumFOp) { return [](D a, D b) { return maximum(a, b); }; })
      .Case([](arith::MinimumFOp) { return [](D a, D b) { return -maximum(-a, -b); }; })
      .Case([](arith::MaxNumFOp) { return [](D a, D b) { return std::fmax(a, b); }; })
      .Case([](arith::MinNumFOp) { return [](D a, D b) { return std::fmin(a, b); }; })
      .Case([](math::PowFOp) { return [](D a, D b) { return std::pow(a, b); }; })
      .Case([](math::Atan2Op) { return [](D a, D b) { return std::atan2(a, b); }; })
      .Case([](math::CopySignOp) { return [](D a, D b) { return std::copysign(a, b); }; })
      .Default(FloatBinary(nullptr));
}

static bool unordered(double a, double b) { return std::isnan(a) || std::isnan(b); }

/// An unordered predicate is the negation of the opposite ordered one.
static FloatPredicate floatPredicate(arith::CmpFPredicate predicate) {
  using P = arith::CmpFPredicate;
  using D = double;
  switch (predicate) {
  case P::AlwaysFalse:
    return [](D, D) { return false; };
  case P::OEQ:
    return [](D a, D b) { return a == b; };
  case P::OGT:
    return [](D a, D b) { return a > b; };
  case P::OGE:
    return [](D a, D b) { return a >= b; };
  case P::OLT:
    return [](D a, D b) { return a < b; };
  case P::OLE:
    return [](D a, D b) { return a <= b; };
  case P::ONE:
    return [](D a, D b) { return a < b || a > b; };
  case P::ORD:
    return [](D a, D b) { return !unordered(a, b); };
  case P::UEQ:
    return [](D a, D b) { return !(a < b || a > b); };
  case P::UGT:
    return [](D a, D b) { return !(a <= b); };
  case P::UGE:
    return [](D a, D b) { return !(a < b); };
  case P::ULT:
    return [](D a, D b) { return !(a >= b); };
  case P::ULE:
    return [](D a, D b) { return !(a > b); };
  case P::UNE:
    return [](D a, D b) { return a != b; };
  case P::UNO:
    return [](D a, D b) { return unordered(a, b); };
  case P::AlwaysTrue:
    return [](D, D) { return true; };
  }
  return nullptr;
}

//===-- integers ----------------------------------------------------------===//

/// An element as the op sees it. i1 is kept as 0 and 1; signed, 1 means -1.
static int64_t seen(int64_t value, unsigned width, bool isUnsigned) {
  if (width == 1)
    return isUnsigned ? value : -value;
  return isUnsigned && width < 64 ? value & llvm::maskTrailingOnes<uint64_t>(width) : value;
}

static bool isUnsigned(Operation *op) {
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return compare.getPredicate() >= arith::CmpIPredicate::ult;
  return isa<arith::DivUIOp, arith::CeilDivUIOp, arith::RemUIOp, arith::MaxUIOp, arith::MinUIOp,
             arith::ShRUIOp, arith::ExtUIOp, arith::UIToFPOp>(op);
}

static int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }
/// Divisors are not 0 here; the one overflow wraps.
static int64_t quotient(int64_t a, int64_t b) { return b == -1 ? wrap(-uint64_t(a)) : a / b; }
static int64_t remainder(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
/// Shifts by the width or more are poison in arith; here they give what a shift
/// by 63 does.
static int64_t amount(int64_t b) { return b < 0 || b > 63 ? 63 : b; }

static int64_t floorQuotient(int64_t a, int64_t b) {
  return quotient(a, b) - (remainder(a, b) != 0 && (a < 0) != (b < 0));
}
static int64_t ceilQuotient(int64_t a, int64_t b) {
  return quotient(a, b) + (remainder(a, b) != 0 && (a < 0) == (b < 0));
}

static int64_t power(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, square = base;
  for (; exponent; exponent >>= 1, square *= square)
    if (exponent & 1)
      result *= square;
  return wrap(result);
}

static IntBinary divisionFunction(Operation *op) {
  using I = int64_t;
  using U = uint64_t;
  return TypeSwitch<Operation *, IntBinary>(op)
      .Case([](arith::DivSIOp) { return [](I a, I b) { return quotient(a, b); }; })
      .Case([](arith::RemSIOp) { return [](I a, I b) { return remainder(a, b); }; })
      .Case([](arith::FloorDivSIOp) { return [](I a, I b) { return floorQuotient(a, b); }; })
      .Case([](arith::CeilDivSIOp) { return [](I a, I b) { return ceilQuotient(a, b); }; })
      .Case([](arith::DivUIOp) { return [](I a, I b) { return wrap(U(a) / U(b)); }; })
      .Case([](arith::CeilDivUIOp) {
        return [](I a, I b) { return wrap(U(a) / U(b) + (U(a) % U(b) != 0)); };
      })
      .Case([](arith::RemUIOp) { return [](I a, I b) { return wrap(U(a) % U(b)); }; })
      .Default(IntBinary(nullptr));
}

static IntBinary intFunction(Operation *op) {
  using I = int64_t;
  using U = uint64_t;
  return TypeSwitch<Operation *, IntBinary>(op)
      .Case([](arith::AddIOp) { return [](I a, I b) { return wrap(U(a) + U(b)); }; })
      .Case([](arith::SubIOp) { return [](I a, I b) { return wrap(U(a) - U(b)); }; })
      .Case([](arith::MulIOp) { return [](I a, I b) { return wrap(U(a) * U(b)); }; })
      .Case([](arith::AndIOp) { return [](I a, I b) { return a & b; }; })
      .Case([](arith::OrIOp) { return [](I a, I b) { return a | b; }; })
      .Case([](arith::XOrIOp) { return [](I a, I b) { return a ^ b; }; })
      .Case([](arith::ShLIOp) { return [](I a, I b) { return wrap(U(a) << amount(b)); }; })
      .Case([](arith::ShRSIOp) { return [](I a, I b) { return a >> amount(b); }; })
      .Case([](arith::ShRUIOp) { return [](I a, I b) { return wrap(U(a) >> amount(b)); }; })
      .Case([](arith::MaxSIOp) { return [](I a, I b) { return std::max(a, b); }; })
      .Case([](arith::MinSIOp) { return [](I a, I b) { return std::min(a, b); }; })
      .Case([](arith::MaxUIOp) { return [](I a, I b) { return wrap(std::max(U(a), U(b))); }; })
      .Case([](arith::MinUIOp) { return [](I a, I b) { return wrap(std::min(U(a), U(b))); }; })
      .Case([](math::IPowIOp) { return [](I a, I b) { return power(a, b); }; })
      .Default(divisionFunction(op));
}

static IntBinary intPredicate(arith::CmpIPredicate predicate) {
  using P = arith::CmpIPredicate;
  using I = int64_t;
  using U = uint64_t;
  switch (predicate) {
  case P::eq:
    return [](I a, I b) { return I(a == b); };
  case P::ne:
    return [](I a, I b) { return I(a != b); };
  case P::slt:
    return [](I a, I b) { return I(a < b); };
  case P::sle:
    return [](I a, I b) { return I(a <= b); };
  case P::sgt:
    return [](I a, I b) { return I(a > b); };
  case P::sge:
    return [](I a, I b) { return I(a >= b); };
  case P::ult:
    return [](I a, I b) { return I(U(a) < U(b)); };
  case P::ule:
    return [](I a, I b) { return I(U(a) <= U(b)); };
  case P::ugt:
    return [](I a, I b) { return I(U(a) > U(b)); };
  case P::uge:
    return [](I a, I b) { return I(U(a) >= U(b)); };
  }
  return nullptr;
}

static LogicalResult evaluateInts(Operation *op, IntBinary function, const Tensor &lhs,
                                  const Tensor &rhs, Tensor &result) {
  unsigned width = lhs.type.getElementTypeBitWidth();
  bool divides = divisionFunction(op) != nullptr, unsignedView = isUnsigned(op);
  for (size_t i = 0; i < result.ints.size(); ++i) {
    if (divides && rhs.ints[i] == 0)
      return op->emitOpError() << "divides by zero at element " << i;
    result.ints[i] = function(seen(lhs.ints[i], width, unsignedView),
                              seen(rhs.ints[i], width, unsignedView));
  }
  return success();
}

//===-- conversions -------------------------------------------------------===//

/// Towards zero. Out of range is poison in arith; here the nearest value, and
/// 0 for NaN.
static int64_t truncated(double value, unsigned width, bool isUnsigned) {
  if (std::isnan(value))
    return 0;
  double high = std::ldexp(1.0, isUnsigned ? width : width - 1), low = isUnsigned ? 0 : -high;
  if (value <= low)
    return isUnsigned ? 0 : llvm::minIntN(width);
  if (value >= high)
    return isUnsigned ? wrap(llvm::maxUIntN(width)) : llvm::maxIntN(width);
  return isUnsigned ? wrap(static_cast<uint64_t>(value)) : static_cast<int64_t>(value);
}

/// True when `op` converts between integers and floats, or widens integers.
static bool evaluateConversion(Operation *op, const Tensor &input, Tensor &result) {
  unsigned width = input.type.getElementTypeBitWidth();
  if (isa<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(op)) {
    for (size_t i = 0; i < result.ints.size(); ++i)
      result.ints[i] = seen(input.ints[i], width, isUnsigned(op));
    return true;
  }
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op)) {
    bool isUnsignedView = isUnsigned(op);
    for (size_t i = 0; i < result.floats.size(); ++i) {
      int64_t value = seen(input.ints[i], width, isUnsignedView);
      result.floats[i] = isUnsignedView ? static_cast<double>(static_cast<uint64_t>(value))
                                        : static_cast<double>(value);
    }
    return true;
  }
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op)) {
    unsigned to = result.type.getElementTypeBitWidth();
    for (size_t i = 0; i < result.ints.size(); ++i)
      result.ints[i] = truncated(input.floats[i], to, isa<arith::FPToUIOp>(op));
    return true;
  }
  return false;
}

//===-- the rest ----------------------------------------------------------===//

/// Ops of mixed or several operands. False when `op` is none of them.
static bool evaluateMixed(Operation *op, Operands in, Tensor &result) {
  auto each = [&](auto &out, auto value) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = value(i);
    return true;
  };
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](arith::SelectOp) {
        auto choose = [&](auto &out, const auto &yes, const auto &no) {
          each(out, [&](size_t i) { return in[0]->ints[i] ? yes[i] : no[i]; });
        };
        onElements(choose, result, *in[1], *in[2]);
        return true;
      })
      .Case([&](arith::CmpFOp compare) {
        FloatPredicate holds = floatPredicate(compare.getPredicate());
        return each(result.ints,
                    [&](size_t i) { return holds(in[0]->floats[i], in[1]->floats[i]); });
      })
      .Case([&](math::FmaOp) {
        return each(result.floats, [&](size_t i) {
          return std::fma(in[0]->floats[i], in[1]->floats[i], in[2]->floats[i]);
        });
      })
      .Case([&](math::FPowIOp) {
        return each(result.floats,
                    [&](size_t i) { return std::pow(in[0]->floats[i], in[1]->ints[i]); });
      })
      .Case([&](math::AbsIOp) {
        return each(result.ints, [&](size_t i) {
          int64_t value = in[0]->ints[i];
          return value < 0 ? wrap(-uint64_t(value)) : value;
        });
      })
      .Case([&](math::IsNaNOp) {
        return each(result.ints, [&](size_t i) { return std::isnan(in[0]->floats[i]); });
      })
      .Case([&](math::IsInfOp) {
        return each(result.ints, [&](size_t i) { return std::isinf(in[0]->floats[i]); });
      })
      .Case([&](math::IsFiniteOp) {
        return each(result.ints, [&](size_t i) { return std::isfinite(in[0]->floats[i]); });
      })
      .Default(false);
}

FailureOr<Tensor> evaluateElementwise(Operation *op, Operands operands) {
  Tensor result(cast<RankedTensorType>(op->getResult(0).getType()));
  for (const Tensor *operand : operands)
    if (operand->size() != result.size())
      return op->emitOpError() << "is interpreted on tensors of one shape only: "
                               << operand->type;
  if (evaluateMixed(op, operands, result) || evaluateConversion(op, *operands[0], result))
    return result;
  if (FloatUnary function = unaryFunction(op)) {
    llvm::transform(operands[0]->floats, result.floats.begin(), function);
    return result;
  }
  if (FloatBinary function = binaryFunction(op)) {
    for (size_t i = 0; i < result.floats.size(); ++i)
      result.floats[i] = function(operands[0]->floats[i], operands[1]->floats[i]);
    return result;
  }
  IntBinary function = intFunction(op);
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    function = intPredicate(compare.getPredicate());
  if (!function)
    return op->emitOpError() << "is not interpreted";
  if (failed(evaluateInts(op, function, *operands[0], *operands[1], result)))
    return failure();
  return result;
}

} // namespace dtc::interpreter
