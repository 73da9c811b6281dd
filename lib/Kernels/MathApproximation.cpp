#include "dtc/Kernels/MathApproximation.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;

namespace dtc::kernels {

namespace {

/// f32 arithmetic at one place.
struct Arithmetic {
  OpBuilder &builder;
  Location loc;

  Value number(float value) {
    return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value));
  }
  Value integer(int32_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
  }
  Value add(Value a, Value b) {
    return arith::AddFOp::create(builder, loc, a, b, arith::FastMathFlags::contract);
  }
  Value subtract(Value a, Value b) {
    return arith::SubFOp::create(builder, loc, a, b, arith::FastMathFlags::contract);
  }
  Value multiply(Value a, Value b) {
    return arith::MulFOp::create(builder, loc, a, b, arith::FastMathFlags::contract);
  }
  Value divide(Value a, Value b) { return arith::DivFOp::create(builder, loc, a, b); }
  Value negate(Value a) { return arith::NegFOp::create(builder, loc, a); }
  Value absolute(Value a) { return math::AbsFOp::create(builder, loc, a); }
  Value multiplyAdd(Value a, Value b, Value c) { return add(multiply(a, b), c); }
  /// Horner's scheme, highest coefficient first.
  Value polynomial(Value x, ArrayRef<float> coefficients) {
    Value sum = number(coefficients.front());
    for (float coefficient : coefficients.drop_front())
      sum = multiplyAdd(sum, x, number(coefficient));
    return sum;
  }
  Value bits(Value a) { return arith::BitcastOp::create(builder, loc, builder.getI32Type(), a); }
  Value fromBits(Value a) {
    return arith::BitcastOp::create(builder, loc, builder.getF32Type(), a);
  }
  Value addInt(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  Value subtractInt(Value a, Value b) { return arith::SubIOp::create(builder, loc, a, b); }
  Value andInt(Value a, Value b) { return arith::AndIOp::create(builder, loc, a, b); }
  Value shiftLeft(Value a, int32_t by) {
    return arith::ShLIOp::create(builder, loc, a, integer(by));
  }
  Value shiftRight(Value a, int32_t by) {
    return arith::ShRSIOp::create(builder, loc, a, integer(by));
  }
  Value compare(arith::CmpFPredicate predicate, Value a, Value b) {
    return arith::CmpFOp::create(builder, loc, predicate, a, b);
  }
  Value select(Value condition, Value a, Value b) {
    return arith::SelectOp::create(builder, loc, condition, a, b);
  }
  /// 2^n for -126 <= n <= 127.
  Value powerOfTwo(Value n) { return fromBits(shiftLeft(addInt(n, integer(127)), 23)); }

  Value exponential(Value x);
  Value exponentialMinusOne(Value x);
  Value smallExponentialMinusOne(Value x);
  Value logarithm(Value x);
  Value logarithmOfOnePlus(Value x);
  Value hyperbolicTangent(Value x);
  Value errorFunction(Value x);
};

} // namespace

using Predicate = arith::CmpFPredicate;

/// For |x| <= log(2) / 2.
Value Arithmetic::smallExponentialMinusOne(Value x) {
  Value p = polynomial(x, {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                           1.6666665459e-1f, 5.0000001201e-1f});
  return multiplyAdd(p, multiply(x, x), x);
}

/// Without the difference of two numbers near to 1 where x is near to 0.
Value Arithmetic::exponentialMinusOne(Value x) {
  Value isSmall = compare(Predicate::OLE, absolute(x), number(0.34657359f));
  return select(isSmall, smallExponentialMinusOne(x), subtract(exponential(x), number(1.0f)));
}

/// exp(x) = 2^n exp(r) with n the integer nearest to x / log 2, so |r| <= log(2) / 2.
Value Arithmetic::exponential(Value x) {
  // Outside of these the result is 0 or infinite; NaN passes.
  Value low = number(-104.0f), high = number(89.0f);
  x = select(compare(Predicate::OLT, x, low), low, x);
  x = select(compare(Predicate::OGT, x, high), high, x);
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  Value shifter = number(12582912.0f);
  Value shifted = multiplyAdd(x, number(1.44269504f), shifter);
  Value n = subtractInt(bits(shifted), bits(shifter));
  Value nearest = arith::SubFOp::create(builder, loc, shifted, shifter);
  Value r = multiplyAdd(nearest, number(-0.693359375f), x);
  r = multiplyAdd(nearest, number(2.12194440e-4f), r);
  Value result = add(smallExponentialMinusOne(r), number(1.0f));
  // In two steps: 2^n alone may be subnormal or infinite where the result is not.
  Value half = shiftRight(n, 1);
  return multiply(multiply(result, powerOfTwo(half)), powerOfTwo(subtractInt(n, half)));
}

/// log(x) = log(m) + e log 2 with x = m 2^e and sqrt(1/2) <= m < sqrt(2).
Value Arithmetic::logarithm(Value x) {
  Value tiny = compare(Predicate::OLT, x, number(std::numeric_limits<float>::min()));
  Value scaled = select(tiny, multiply(x, number(8388608.0f)), x);
  Value correction = select(tiny, number(-23.0f), number(0.0f));
  // Subtracting the bits of sqrt(1/2) makes the exponent field that of m's range.
  Value base = integer(0x3f3504f3);
  Value shifted = subtractInt(bits(scaled), base);
  Value exponent = shiftRight(shifted, 23);
  Value m = fromBits(addInt(andInt(shifted, integer(0x7fffff)), base));
  Value e = add(arith::SIToFPOp::create(builder, loc, builder.getF32Type(), exponent), correction);
  Value r = subtract(m, number(1.0f)), square = multiply(r, r);
  Value p = polynomial(r, {7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f,
                           1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f,
                           3.3333331174e-1f});
  Value y = multiply(multiply(p, r), square);
  y = multiplyAdd(e, number(-2.12194440e-4f), y);
  y = multiplyAdd(square, number(-0.5f), y);
  Value result = multiplyAdd(e, number(0.693359375f), add(r, y));
  float infinity = std::numeric_limits<float>::infinity();
  result = select(compare(Predicate::OEQ, x, number(infinity)), x, result);
  result = select(compare(Predicate::OEQ, x, number(0.0f)), number(-infinity), result);
  Value negative = compare(Predicate::ULT, x, number(0.0f)); // or NaN
  return select(negative, number(std::numeric_limits<float>::quiet_NaN()), result);
}

/// log(1 + x) = log(u) x / (u - 1), where u is 1 + x after rounding.
Value Arithmetic::logarithmOfOnePlus(Value x) {
  Value one = number(1.0f);
  Value u = arith::AddFOp::create(builder, loc, x, one);
  Value rest = arith::SubFOp::create(builder, loc, u, one);
  Value corrected = multiply(logarithm(u), divide(x, rest));
  Value infinite = compare(Predicate::OEQ, x, number(std::numeric_limits<float>::infinity()));
  Value result = select(compare(Predicate::OEQ, u, one), x, corrected);
  return select(infinite, x, result);
}

Value Arithmetic::hyperbolicTangent(Value x) {
  Value size = absolute(x), square = multiply(x, x);
  Value p = polynomial(square, {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                                1.33314422036e-1f, -3.33332819422e-1f});
  Value small = multiplyAdd(multiply(p, square), x, x);
  Value grown = exponential(add(size, size));
  Value large = subtract(number(1.0f), divide(number(2.0f), add(grown, number(1.0f))));
  large = math::CopySignOp::create(builder, loc, large, x);
  return select(compare(Predicate::OLT, size, number(0.625f)), small, large);
}

Value Arithmetic::errorFunction(Value x) {
  Value size = absolute(x), square = multiply(x, x);
  Value p = polynomial(square, {-5.96761703e-4f, 4.99119423e-3f, -2.67681349e-2f, 1.12819925e-1f,
                                -3.76125336e-1f, 1.28379166e-1f});
  Value small = multiplyAdd(p, x, x);
  Value upper = multiplyAdd(number(-1.72853470e-5f), size, number(3.83197126e-4f));
  Value lower = multiplyAdd(number(-3.88396438e-3f), size, number(2.42546219e-2f));
  Value q = multiplyAdd(upper, square, lower);
  for (float coefficient : {-1.06777877e-1f, -6.34846687e-1f, -1.28717512e-1f})
    q = multiplyAdd(q, size, number(coefficient));
  q = multiplyAdd(q, size, negate(size));
  // The polynomial is only good up to where the result is 1.
  Value beyond = compare(Predicate::OGT, size, number(4.0f));
  Value large = subtract(number(1.0f), exponential(select(beyond, number(-104.0f), q)));
  large = math::CopySignOp::create(builder, loc, large, x);
  return select(compare(Predicate::OLT, size, number(0.927734375f)), small, large);
}

Value approximate(OpBuilder &builder, Operation *op, ValueRange operands) {
  if (operands.empty() || !operands[0].getType().isF32())
    return {};
  Arithmetic a{builder, op->getLoc()};
  Value x = operands[0];
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::ExpOp) { return a.exponential(x); })
      .Case([&](math::ExpM1Op) { return a.exponentialMinusOne(x); })
      .Case([&](math::LogOp) { return a.logarithm(x); })
      .Case([&](math::Log1pOp) { return a.logarithmOfOnePlus(x); })
      .Case([&](math::TanhOp) { return a.hyperbolicTangent(x); })
      .Case([&](math::ErfOp) { return a.errorFunction(x); })
      .Default([](Operation *) { return Value(); });
}

} // namespace dtc::kernels
