#include "MathFunctions.h"

#include "dtc/Kernels/ElementTypes.h"
#include "dtc/Kernels/MathApproximation.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>
#include <numbers>

using namespace mlir;

namespace dtc::cuda {
namespace {

using Predicate = arith::CmpFPredicate;

/// f64 arithmetic at one place. Errors are around 1e-14.
struct Doubles {
  OpBuilder &builder;
  Location loc;

  Value number(double value) {
    return arith::ConstantOp::create(builder, loc, builder.getF64FloatAttr(value));
  }
  Value integer(int64_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
  }
  Value add(Value a, Value b) {
    return arith::AddFOp::create(builder, loc, a, b, arith::FastMathFlags::contract);
  }
  Value multiply(Value a, Value b) {
    return arith::MulFOp::create(builder, loc, a, b, arith::FastMathFlags::contract);
  }
  Value divide(Value a, Value b) { return arith::DivFOp::create(builder, loc, a, b); }
  Value negate(Value a) { return arith::NegFOp::create(builder, loc, a); }
  Value nearest(Value a) { return math::RoundEvenOp::create(builder, loc, a); }
  Value compare(Predicate predicate, Value a, Value b) {
    return arith::CmpFOp::create(builder, loc, predicate, a, b);
  }
  Value select(Value condition, Value a, Value b) {
    return arith::SelectOp::create(builder, loc, condition, a, b);
  }
  Value both(Value a, Value b) { return arith::AndIOp::create(builder, loc, a, b); }
  Value toInteger(Value a) {
    return arith::FPToSIOp::create(builder, loc, builder.getI64Type(), a);
  }
  Value bits(Value a) { return arith::BitcastOp::create(builder, loc, builder.getI64Type(), a); }
  Value fromBits(Value a) {
    return arith::BitcastOp::create(builder, loc, builder.getF64Type(), a);
  }
  Value isOdd(Value integerValue) {
    Value bit = arith::AndIOp::create(builder, loc, integerValue, integer(1));
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, bit, integer(0));
  }
  /// Horner's scheme, highest coefficient first.
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value sum = number(coefficients.front());
    for (double coefficient : coefficients.drop_front())
      sum = add(multiply(sum, x), number(coefficient));
    return sum;
  }
  Value clamped(Value x, double low, double high) {
    x = select(compare(Predicate::OLT, x, number(low)), number(low), x);
    return select(compare(Predicate::OGT, x, number(high)), number(high), x);
  }

  Value powerOfTwo(Value x);
  Value binaryLogarithm(Value x);
  Value power(Value x, Value y);
  Value exponentialMinusOne(Value x);
  Value hyperbolicSine(Value x);
  Value hyperbolicCosine(Value x);
  Value hyperbolicTangent(Value x);
  /// Of x, or of x + pi / 2 where `quarter` is 1.
  Value sine(Value x, int64_t quarter);

  Value root(Value x) { return math::SqrtOp::create(builder, loc, x); }
  Value absolute(Value x) { return math::AbsFOp::create(builder, loc, x); }
  Value withSign(Value size, Value sign) {
    return math::CopySignOp::create(builder, loc, size, sign);
  }
  Value logarithm(Value x) { return multiply(binaryLogarithm(x), number(std::numbers::ln2)); }
  Value logarithmOfOnePlus(Value x);
  Value inverseSine(Value x);
  Value inverseCosine(Value x);
  Value inverseTangent(Value x);
  Value angle(Value y, Value x);
  Value inverseHyperbolicSine(Value x);
  Value inverseHyperbolicCosine(Value x);
  Value inverseHyperbolicTangent(Value x);
  Value cubeRoot(Value x);
  Value remainder(Value x, Value y);
};

/// 2^x = 2^n 2^f with n the integer nearest to x.
Value Doubles::powerOfTwo(Value x) {
  x = clamped(x, -1100, 1100); // beyond, the result is 0 or infinite
  Value n = nearest(x);
  Value f = multiply(add(x, negate(n)), number(std::numbers::ln2));
  std::vector<double> coefficients; // 1/13!, ..., 1/1!, 1/0!
  double factorial = 1;
  for (int i = 0; i <= 13; factorial *= ++i)
    coefficients.insert(coefficients.begin(), 1 / factorial);
  Value mantissa = polynomial(f, coefficients);
  auto scaled = [&](Value value, Value by) {
    Value exponent = arith::AddIOp::create(builder, loc, by, integer(1023));
    return multiply(value, fromBits(arith::ShLIOp::create(builder, loc, exponent, integer(52))));
  };
  // In two steps: 2^n alone may be subnormal or infinite where the result is not.
  Value whole = toInteger(n), half = arith::ShRSIOp::create(builder, loc, whole, integer(1));
  Value rest = arith::SubIOp::create(builder, loc, whole, half);
  Value result = scaled(scaled(mantissa, half), rest);
  return select(compare(Predicate::UNO, x, x), x, result);
}

/// log2(x) = e + log2(m), with m within [sqrt(1/2), sqrt(2)), by the series of artanh.
Value Doubles::binaryLogarithm(Value x) {
  Value tiny = compare(Predicate::OLT, x, number(std::numeric_limits<double>::min()));
  Value normal = select(tiny, multiply(x, number(18014398509481984.0)), x); // by 2^54
  Value base = integer(0x3fe6a09e667f3bcd);                                 // sqrt(1/2)
  Value shifted = arith::SubIOp::create(builder, loc, bits(normal), base);
  Value e = arith::ShRSIOp::create(builder, loc, shifted, integer(52));
  Value rest = arith::AndIOp::create(builder, loc, shifted, integer((int64_t(1) << 52) - 1));
  Value m = fromBits(arith::AddIOp::create(builder, loc, rest, base));
  Value s = divide(add(m, number(-1)), add(m, number(1)));
  std::vector<double> coefficients; // 1/17, ..., 1/3, 1
  for (int i = 17; i >= 1; i -= 2)
    coefficients.push_back(1.0 / i);
  Value series = multiply(s, polynomial(multiply(s, s), coefficients));
  Value exponent = arith::SIToFPOp::create(builder, loc, builder.getF64Type(), e);
  exponent = add(exponent, select(tiny, number(-54), number(0)));
  Value result = add(multiply(series, number(2 / std::numbers::ln2)), exponent);
  double infinity = std::numeric_limits<double>::infinity();
  result = select(compare(Predicate::OEQ, x, number(infinity)), x, result);
  result = select(compare(Predicate::OEQ, x, number(0)), number(-infinity), result);
  Value negative = compare(Predicate::ULT, x, number(0)); // or NaN
  return select(negative, number(std::numeric_limits<double>::quiet_NaN()), result);
}

Value Doubles::power(Value x, Value y) {
  Value size = math::AbsFOp::create(builder, loc, x);
  Value result = powerOfTwo(multiply(y, binaryLogarithm(size)));
  // |y| beyond 2^53 is even.
  Value whole = compare(Predicate::OEQ, nearest(y), y);
  Value odd = both(whole, isOdd(toInteger(clamped(y, -9007199254740992.0, 9007199254740992.0))));
  Value sign = math::CopySignOp::create(builder, loc, number(1), x);
  result = select(odd, multiply(result, sign), result);
  Value isNegative = compare(Predicate::OLT, x, number(0));
  Value finite = compare(Predicate::OGT, x, number(-std::numeric_limits<double>::infinity()));
  Value noWhole = compare(Predicate::ONE, nearest(y), y);
  Value none = both(both(isNegative, finite), noWhole);
  result = select(none, number(std::numeric_limits<double>::quiet_NaN()), result);
  Value isOne = compare(Predicate::OEQ, x, number(1)),
        isZero = compare(Predicate::OEQ, y, number(0));
  return select(arith::OrIOp::create(builder, loc, isOne, isZero), number(1), result);
}

/// The first terms of the series where the difference would lose digits.
Value Doubles::exponentialMinusOne(Value x) {
  Value large = add(powerOfTwo(multiply(x, number(1 / std::numbers::ln2))), number(-1));
  Value small = multiply(x, polynomial(x, {1.0 / 24, 1.0 / 6, 0.5, 1}));
  Value size = math::AbsFOp::create(builder, loc, x);
  return select(compare(Predicate::OLT, size, number(1e-3)), small, large);
}

/// (exp(x) - exp(-x)) / 2 = (e + e / (e + 1)) / 2 with e = exp(x) - 1, for x >= 0.
Value Doubles::hyperbolicSine(Value x) {
  Value e = exponentialMinusOne(math::AbsFOp::create(builder, loc, x));
  Value result = multiply(add(e, divide(e, add(e, number(1)))), number(0.5));
  return math::CopySignOp::create(builder, loc, result, x);
}

/// e / (e + 2) with e = exp(2 x) - 1, for x >= 0; 1 where e would be infinite.
Value Doubles::hyperbolicTangent(Value x) {
  Value size = clamped(math::AbsFOp::create(builder, loc, x), 0, 20);
  Value e = exponentialMinusOne(add(size, size));
  return math::CopySignOp::create(builder, loc, divide(e, add(e, number(2))), x);
}

Value Doubles::hyperbolicCosine(Value x) {
  Value scaled = multiply(x, number(1 / std::numbers::ln2));
  return multiply(add(powerOfTwo(scaled), powerOfTwo(negate(scaled))), number(0.5));
}

Value Doubles::sine(Value x, int64_t quarter) {
  Value n = nearest(multiply(x, number(2 / std::numbers::pi)));
  // pi / 2 in two parts, the first with zeros at its end.
  Value r = add(multiply(n, number(-1.57079632673412561417e+00)), x);
  r = add(multiply(n, number(-6.07710050650619224932e-11)), r);
  Value square = multiply(r, r);
  auto series = [&](int first) { // of alternating 1/i!
    std::vector<double> coefficients;
    double factorial = 1, sign = 1;
    for (int i = first; i <= 14; i += 2, sign = -sign) {
      coefficients.insert(coefficients.begin(), sign / factorial);
      factorial *= double(i + 1) * double(i + 2);
    }
    return polynomial(square, coefficients);
  };
  Value sine = multiply(r, series(1)), cosine = series(0);
  Value turns = arith::AddIOp::create(builder, loc, toInteger(n), integer(quarter));
  Value result = select(isOdd(turns), cosine, sine);
  Value half = arith::ShRSIOp::create(builder, loc, turns, integer(1));
  return select(isOdd(half), negate(result), result);
}

/// log(u) x / (u - 1), where u is 1 + x after rounding.
Value Doubles::logarithmOfOnePlus(Value x) {
  // Contracting either sum would undo the rounding that this is about.
  Value u = arith::AddFOp::create(builder, loc, x, number(1));
  Value rest = arith::SubFOp::create(builder, loc, u, number(1));
  Value result = divide(multiply(logarithm(u), x), rest);
  result = select(compare(Predicate::OEQ, u, number(1)), x, result);
  Value infinite = compare(Predicate::OEQ, x, number(std::numeric_limits<double>::infinity()));
  return select(infinite, x, result);
}

/// The angle is halved twice, by tan(a / 2) = t / (1 + sqrt(1 + t^2)). Of at most pi / 4, pi / 16
/// is left at most. The series does the rest.
Value Doubles::inverseTangent(Value x) {
  Value size = absolute(x);
  Value isLarge = compare(Predicate::OGT, size, number(1));
  Value t = select(isLarge, divide(number(1), size), size);
  for (int i = 0; i < 2; ++i)
    t = divide(t, add(number(1), root(add(number(1), multiply(t, t)))));
  std::vector<double> coefficients; // 1/25, -1/23, ..., -1/3, 1
  for (int i = 25; i >= 1; i -= 2)
    coefficients.push_back((i % 4 == 1 ? 1.0 : -1.0) / i);
  Value result = multiply(multiply(t, number(4)), polynomial(multiply(t, t), coefficients));
  result = select(isLarge, add(number(std::numbers::pi / 2), negate(result)), result);
  return withSign(result, x);
}

/// sqrt((1 - x)(1 + x)) loses no digits near 1.
Value Doubles::inverseSine(Value x) {
  Value other = root(multiply(add(number(1), negate(x)), add(number(1), x)));
  return inverseTangent(divide(x, other));
}

Value Doubles::inverseCosine(Value x) {
  Value half = root(divide(add(number(1), negate(x)), add(number(1), x)));
  return multiply(number(2), inverseTangent(half));
}

/// atan2(y, x).
Value Doubles::angle(Value y, Value x) {
  Value size = absolute(x), other = absolute(y), ratio = divide(other, size);
  ratio = select(compare(Predicate::OEQ, other, size), number(1), ratio); // also of infinities
  ratio = select(compare(Predicate::OEQ, other, number(0)), number(0), ratio);
  Value result = inverseTangent(ratio);
  Value isLeft = compare(Predicate::OLT, withSign(number(1), x), number(0));
  result = select(isLeft, add(number(std::numbers::pi), negate(result)), result);
  result = select(compare(Predicate::UNO, x, y), add(x, y), result);
  return withSign(result, y);
}

/// log(1 + x + x^2 / (1 + sqrt(1 + x^2))); log(2 x) where x^2 could be infinite.
Value Doubles::inverseHyperbolicSine(Value x) {
  constexpr double kLarge = 1e8;
  Value size = absolute(x), bounded = clamped(size, 0, kLarge);
  Value square = multiply(bounded, bounded);
  Value tail = divide(square, add(number(1), root(add(number(1), square))));
  Value small = logarithmOfOnePlus(add(bounded, tail));
  Value large = add(logarithm(size), number(std::numbers::ln2));
  return withSign(select(compare(Predicate::OGT, size, number(kLarge)), large, small), x);
}

/// log(1 + t + sqrt(t (t + 2))) with t = x - 1.
Value Doubles::inverseHyperbolicCosine(Value x) {
  constexpr double kLarge = 1e8;
  Value t = clamped(add(x, number(-1)), 0, kLarge);
  Value small = logarithmOfOnePlus(add(t, root(multiply(t, add(t, number(2))))));
  Value large = add(logarithm(x), number(std::numbers::ln2));
  Value result = select(compare(Predicate::OGT, x, number(kLarge)), large, small);
  Value none = compare(Predicate::ULT, x, number(1)); // or NaN
  return select(none, number(std::numeric_limits<double>::quiet_NaN()), result);
}

Value Doubles::inverseHyperbolicTangent(Value x) {
  Value size = absolute(x);
  Value ratio = divide(add(size, size), add(number(1), negate(size)));
  Value result = multiply(logarithmOfOnePlus(ratio), number(0.5));
  Value none = compare(Predicate::UGT, size, number(1)); // or NaN
  result = select(none, number(std::numeric_limits<double>::quiet_NaN()), result);
  return withSign(result, x);
}

Value Doubles::cubeRoot(Value x) {
  Value size = powerOfTwo(multiply(binaryLogarithm(absolute(x)), number(1.0 / 3)));
  size = select(compare(Predicate::OEQ, x, number(0)), number(0), size);
  return withSign(size, x);
}

/// What is left of x once as many y are taken away as fit. It has no error: a quotient is wrong in
/// its last bits, but what it leaves has no more bits than y, and is divided again. One that was
/// rounded up leaves too little by one y. NaN where the quotient of two f64 is infinite.
Value Doubles::remainder(Value x, Value y) {
  Value size = absolute(y);
  auto loop = scf::WhileOp::create(
      builder, loc, TypeRange{builder.getF64Type()}, ValueRange{absolute(x)},
      [&](OpBuilder &, Location, ValueRange rest) {
        Value goesOn = compare(Predicate::OGE, absolute(rest[0]), size);
        scf::ConditionOp::create(builder, loc, goesOn, rest);
      },
      [&](OpBuilder &, Location, ValueRange rest) {
        Value times = math::TruncOp::create(builder, loc, divide(rest[0], size));
        Value less = math::FmaOp::create(builder, loc, negate(times), size, rest[0]);
        scf::YieldOp::create(builder, loc, less);
      });
  Value rest = loop.getResult(0);
  rest = select(compare(Predicate::OLT, rest, number(0)), add(rest, size), rest);
  return withSign(rest, x);
}

} // namespace

/// Those that a GPU has instructions for, or few of them.
static bool isNative(Operation *op) {
  return isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::CopySignOp, math::CtPopOp,
             math::CountLeadingZerosOp, math::CountTrailingZerosOp, math::FloorOp, math::FmaOp,
             math::RoundOp, math::RoundEvenOp, math::SqrtOp, math::RsqrtOp, math::TruncOp>(op);
}

bool isComputable(Operation *op) {
  if (!isa<math::MathDialect>(op->getDialect()) || isNative(op))
    return true;
  bool isF32 = kernels::computeType(getElementTypeOrSelf(op->getResult(0))).isF32();
  if (isa<math::ErfOp, math::Log1pOp>(op))
    return isF32;
  return isa<math::AcosOp, math::AcoshOp, math::AsinOp, math::AsinhOp, math::AtanOp, math::Atan2Op,
             math::AtanhOp, math::CbrtOp, math::CosOp, math::CoshOp, math::ExpOp, math::Exp2Op,
             math::ExpM1Op, math::FPowIOp, math::LogOp, math::Log2Op, math::Log10Op, math::PowFOp,
             math::SinOp, math::SinhOp, math::TanOp, math::TanhOp>(op);
}

/// Functions that are computed in f64; null for others.
static Value inDoubles(Doubles &d, Operation *op, Value x, Value y) {
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::PowFOp) { return d.power(x, y); })
      .Case([&](math::FPowIOp) { return d.power(x, y); })
      .Case(
          [&](math::ExpOp) { return d.powerOfTwo(d.multiply(x, d.number(1 / std::numbers::ln2))); })
      .Case([&](math::Exp2Op) { return d.powerOfTwo(x); })
      .Case([&](math::ExpM1Op) { return d.exponentialMinusOne(x); })
      .Case([&](math::LogOp) { return d.logarithm(x); })
      .Case([&](math::Log2Op) { return d.binaryLogarithm(x); })
      .Case([&](math::Log10Op) {
        return d.multiply(d.binaryLogarithm(x), d.number(std::numbers::ln2 / std::numbers::ln10));
      })
      .Case([&](math::SinOp) { return d.sine(x, 0); })
      .Case([&](math::CosOp) { return d.sine(x, 1); })
      .Case([&](math::TanOp) { return d.divide(d.sine(x, 0), d.sine(x, 1)); })
      .Case([&](math::TanhOp) { return d.hyperbolicTangent(x); })
      .Case([&](math::SinhOp) { return d.hyperbolicSine(x); })
      .Case([&](math::CoshOp) { return d.hyperbolicCosine(x); })
      .Case([&](math::AsinOp) { return d.inverseSine(x); })
      .Case([&](math::AcosOp) { return d.inverseCosine(x); })
      .Case([&](math::AtanOp) { return d.inverseTangent(x); })
      .Case([&](math::Atan2Op) { return d.angle(x, y); })
      .Case([&](math::AsinhOp) { return d.inverseHyperbolicSine(x); })
      .Case([&](math::AcoshOp) { return d.inverseHyperbolicCosine(x); })
      .Case([&](math::AtanhOp) { return d.inverseHyperbolicTangent(x); })
      .Case([&](math::CbrtOp) { return d.cubeRoot(x); })
      .Case([&](arith::RemFOp) { return d.remainder(x, y); })
      .Default([](Operation *) { return Value(); });
}

/// What the GPU has one instruction for.
static Value ofGpu(OpBuilder &builder, Location loc, StringRef name, Value x) {
  return LLVM::CallIntrinsicOp::create(builder, loc, x.getType(), builder.getStringAttr(name), x)
      .getResult(0);
}

Value coarseExponential(OpBuilder &builder, Location loc, Value x) {
  Value factor = arith::ConstantOp::create(
      builder, loc, builder.getF32FloatAttr(static_cast<float>(std::numbers::log2e)));
  return ofGpu(builder, loc, "llvm.nvvm.ex2.approx.ftz.f32",
               arith::MulFOp::create(builder, loc, x, factor));
}

Value coarseReciprocal(OpBuilder &builder, Location loc, Value x) {
  return ofGpu(builder, loc, "llvm.nvvm.rcp.approx.ftz.f", x);
}

/// exp(x) = 2^n 2^r with n near to x / log(2), by the GPU's own 2^r. It is what CUDA's expf does. n
/// is bounded so that 2^n is a normal number. What lies beyond is left to r, and so is NaN.
Value shortExponential(OpBuilder &builder, Location loc, Value x) {
  Type f32 = builder.getF32Type(), i32 = builder.getI32Type();
  auto number = [&](float value) {
    return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value));
  };
  constexpr float kLogarithm = 1.44269502f, kRest = 1.92596303e-8f; // of e, to the base of 2
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits, here with 2^n's bias.
  constexpr float kShifter = 12582912.0f + 127;
  constexpr int32_t kMantissaBits = 23;
  Value bounded = arith::MaxNumFOp::create(builder, loc, x, number(-87));
  bounded = arith::MinNumFOp::create(builder, loc, bounded, number(88));
  Value shifted = math::FmaOp::create(builder, loc, bounded, number(kLogarithm), number(kShifter));
  Value minusN = arith::SubFOp::create(builder, loc, number(kShifter), shifted);
  Value r = math::FmaOp::create(builder, loc, x, number(kLogarithm), minusN);
  r = math::FmaOp::create(builder, loc, x, number(kRest), r);
  Value power = ofGpu(builder, loc, "llvm.nvvm.ex2.approx.ftz.f32", r);
  Value bits = arith::BitcastOp::create(builder, loc, i32, shifted);
  Value by = arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(kMantissaBits));
  Value scale =
      arith::BitcastOp::create(builder, loc, f32, arith::ShLIOp::create(builder, loc, bits, by));
  return arith::MulFOp::create(builder, loc, power, scale);
}

Value approximate(OpBuilder &builder, Operation *op, ValueRange operands) {
  if (Value value = kernels::approximate(builder, op, operands))
    return value;
  Location loc = op->getLoc();
  if (isa<math::RsqrtOp>(op)) {
    Type type = operands[0].getType();
    Value one = arith::ConstantOp::create(builder, loc, builder.getFloatAttr(type, 1));
    Value root = math::SqrtOp::create(builder, loc, operands[0]);
    return arith::DivFOp::create(builder, loc, one, root);
  }
  // LLVM's own remainder is wrong where a quotient rounds up to an integer.
  const bool isFunction = isa<math::MathDialect>(op->getDialect()) && !isNative(op);
  if (!isFunction && !isa<arith::RemFOp>(op))
    return {};
  Doubles doubles{builder, loc};
  Type f64 = builder.getF64Type();
  SmallVector<Value, 2> wide;
  for (Value operand : operands) {
    if (operand.getType().isF32())
      operand = arith::ExtFOp::create(builder, loc, f64, operand);
    else if (!operand.getType().isF64())
      operand = arith::SIToFPOp::create(builder, loc, f64, operand);
    wide.push_back(operand);
  }
  Value result = inDoubles(doubles, op, wide[0], wide.back());
  if (!result || operands[0].getType().isF64())
    return result;
  return arith::TruncFOp::create(builder, loc, builder.getF32Type(), result);
}

} // namespace dtc::cuda
