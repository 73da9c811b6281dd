// Arithmetic on integers and floats. Approximations are computed exactly.
#include "Emulator/Device/Fault.h"
#include "Emulator/Interpreter/Instructions.h"
#include "dtc-cuda/Driver.h"

#include <cmath>
#include <limits>

namespace dtc::emulator {

namespace {

// Overflow is defined in PTX. So integers are added and multiplied without a sign, which gives the
// same bits.
constexpr auto kAdd = []<typename V>(V a, V b) -> V { return a + b; };
constexpr auto kSubtract = []<typename V>(V a, V b) -> V { return a - b; };
constexpr auto kMultiply = []<typename V>(V a, V b) -> V { return a * b; };
constexpr auto kMad = []<typename V>(V a, V b, V c) -> V { return a * b + c; };
constexpr auto kNegate = []<typename V>(V a) -> V { return -a; };
constexpr auto kMultiplyHigh = []<typename V>(V a, V b) -> V {
  using T = ElementOf<V>;
  V result;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    result[lane] = static_cast<T>((Wider<T>(a[lane]) * Wider<T>(b[lane])) >> (8 * sizeof(T)));
  return result;
};
constexpr auto kMultiplyWide = []<typename V>(V a, V b) {
  using T = ElementOf<V>;
  return convert<Wider<T>, T>(a) * convert<Wider<T>, T>(b);
};
constexpr auto kMadWide = []<typename V>(V a, V b, auto c) {
  using Sum = ElementOf<decltype(c)>;
  return c + reinterpret<Sum, Wider<ElementOf<V>>>(kMultiplyWide(a, b));
};
constexpr auto kMinimumInteger = []<typename V>(V a, V b) -> V {
  return __builtin_elementwise_min(a, b);
};
constexpr auto kMaximumInteger = []<typename V>(V a, V b) -> V {
  return __builtin_elementwise_max(a, b);
};
constexpr auto kAbsoluteInteger = []<typename V>(V a) -> V {
  using T = ElementOf<V>;
  return a < 0 ? reinterpret<T, UnsignedLike<T>>(-reinterpret<UnsignedLike<T>, T>(a)) : a;
};

template <typename T> using Widened = Wider<T>(T, T);
template <typename T> using WidenedSum = UnsignedLike<Wider<T>>(T, T, UnsignedLike<Wider<T>>);

/// A quotient or a remainder. A zero divisor has no defined result, and no compiler emits one that
/// runs.
template <typename T, bool IsQuotient>
void divide(Warp &warp, const Instruction &at, uint32_t mask) {
  Lanes<T> a = warp.read<T>(at.operands[1]), b = warp.read<T>(at.operands[2]), result = a;
  forLanes(mask, [&](unsigned lane) {
    T divisor = b[lane];
    if (divisor == 0)
      warp.fail(cuda::CUDA_ERROR_ILLEGAL_INSTRUCTION, at, lane, "division by zero");
    if (std::is_signed_v<T> && divisor == T(-1))
      result[lane] = IsQuotient ? static_cast<T>(0 - static_cast<UnsignedLike<T>>(a[lane])) : T(0);
    else
      result[lane] = IsQuotient ? a[lane] / divisor : a[lane] % divisor;
  });
  warp.write<T>(at.operands[0], result, mask);
}

template <typename... T>
void enterDivisions(InstructionTable &table, const std::string &kind, Types<T...>) {
  auto name = [&](const char *start, size_t bytes) {
    return start + kind + std::to_string(8 * bytes);
  };
  (table.emplace(name("div.", sizeof(T)), RowOf<T(T, T)>::with(divide<T, true>)), ...);
  (table.emplace(name("rem.", sizeof(T)), RowOf<T(T, T)>::with(divide<T, false>)), ...);
}

constexpr auto kDivide = []<typename V>(V a, V b) -> V { return a / b; };
constexpr auto kFused = []<typename V>(V a, V b, V c) -> V {
  return __builtin_elementwise_fma(a, b, c);
};
/// Halves: the sum in 64 bits, then one rounding.
constexpr auto kFusedHalf = [](Lanes<float> a, Lanes<float> b, Lanes<float> c) {
  auto wide = [](Lanes<float> value) { return convert<double, float>(value); };
  return roundToOdd(wide(a) * wide(b) + wide(c));
};
constexpr auto kAbsolute = []<typename V>(V a) -> V { return __builtin_elementwise_abs(a); };
// The sign of a half is a bit; NaN keeps its payload.
constexpr auto kNegateHalf = [](Lanes<uint16_t> a) -> Lanes<uint16_t> { return a ^ 0x8000; };
constexpr auto kAbsoluteHalf = [](Lanes<uint16_t> a) -> Lanes<uint16_t> { return a & 0x7fff; };
constexpr auto kReciprocal = []<typename V>(V a) -> V { return 1 / a; };
constexpr auto kSquareRoot = []<typename V>(V a) -> V { return __builtin_elementwise_sqrt(a); };
constexpr auto kCopySign = []<typename V>(V sign, V a) -> V {
  return __builtin_elementwise_copysign(a, sign);
};
constexpr auto kExponential = [](Lanes<float> a) {
  return mapLanes<float>(a, [](float v) { return std::exp2(v); });
};

Lanes<float> flushSubnormals(Lanes<float> value) {
  uint32_t isSmall = maskOf(__builtin_elementwise_abs(value) < std::numeric_limits<float>::min());
  return select<float>(isSmall, __builtin_elementwise_copysign(Lanes<float>(0.0f), value), value);
}
template <auto F>
constexpr auto kFlushing = [](Lanes<float> a) { return flushSubnormals(F(flushSubnormals(a))); };

/// The smaller one, -0 below +0; the other where one is NaN, unless `Propagates`.
template <bool Propagates>
constexpr auto kMinimum = []<typename V>(V a, V b) -> V {
  using T = ElementOf<V>;
  auto equal = (a == b) & (reinterpret<SignedLike<T>, T>(a) < 0);
  V result = ((a < b) | equal) ? a : b;
  uint32_t aIsNan = maskOf(a != a), bIsNan = maskOf(b != b);
  if (Propagates)
    return select<T>(aIsNan | bIsNan, V(std::numeric_limits<T>::quiet_NaN()), result);
  result = select<T>(aIsNan, b, result);
  return select<T>(bIsNan, a, result);
};
template <bool Propagates>
constexpr auto kMaximum = []<typename V>(V a, V b) -> V { return -kMinimum<Propagates>(-a, -b); };

void addIntegers(InstructionTable &table) {
  enter<kAdd, Binary>(table, {"add.s", "add.u"}, Words());
  enter<kSubtract, Binary>(table, {"sub.s", "sub.u"}, Words());
  enter<kMultiply, Binary>(table, {"mul.lo.s", "mul.lo.u"}, Words());
  enter<kMad, Ternary>(table, {"mad.lo.s", "mad.lo.u"}, Words());
  enter<kNegate, Unary>(table, {"neg.s"}, Words());
  enter<kAbsoluteInteger, Unary>(table, {"abs.s"}, Signed());
  enter<kMultiplyHigh, Binary>(table, {"mul.hi.s"}, Signed());
  enter<kMultiplyHigh, Binary>(table, {"mul.hi.u"}, Words());
  enter<kMinimumInteger, Binary>(table, {"min.s"}, Signed());
  enter<kMinimumInteger, Binary>(table, {"min.u"}, Words());
  enter<kMaximumInteger, Binary>(table, {"max.s"}, Signed());
  enter<kMaximumInteger, Binary>(table, {"max.u"}, Words());
  enter<kMultiplyWide, Widened>(table, {"mul.wide.s"}, Types<int16_t, int32_t>());
  enter<kMultiplyWide, Widened>(table, {"mul.wide.u"}, Types<uint16_t, uint32_t>());
  enter<kMadWide, WidenedSum>(table, {"mad.wide.s"}, Types<int16_t, int32_t>());
  enter<kMadWide, WidenedSum>(table, {"mad.wide.u"}, Types<uint16_t, uint32_t>());
  enterDivisions(table, "s", Signed());
  enterDivisions(table, "u", Words());
}

void addFloats(InstructionTable &table) {
  using Full = Types<float, double>;
  enter<kAdd, Binary>(table, {"add.f", "add.rn.f"}, Floats());
  enter<kSubtract, Binary>(table, {"sub.f", "sub.rn.f"}, Floats());
  enter<kMultiply, Binary>(table, {"mul.f", "mul.rn.f"}, Floats());
  enter<kDivide, Binary>(table, {"div.rn.f"}, Full());
  enter<kFused, Ternary>(table, {"fma.rn.f"}, Full());
  enter<kNegate, Unary>(table, {"neg.f"}, Full());
  enter<kAbsolute, Unary>(table, {"abs.f"}, Full());
  enter<kReciprocal, Unary>(table, {"rcp.rn.f"}, Full());
  enter<kSquareRoot, Unary>(table, {"sqrt.rn.f"}, Full());
  enter<kCopySign, Binary>(table, {"copysign.f"}, Full());
  enterOne<kExponential, float(float)>(table, "ex2.approx.f32");
  enterOne<kFlushing<kExponential>, float(float)>(table, "ex2.approx.ftz.f32");
  enterOne<kFlushing<kReciprocal>, float(float)>(table, "rcp.approx.ftz.f32");
  enterOne<kFusedHalf, F16(F16, F16, F16)>(table, "fma.rn.f16");
  enterOne<kFusedHalf, BF16(BF16, BF16, BF16)>(table, "fma.rn.bf16");
  enter<kNegateHalf, Unary>(table, {"neg.f", "neg.bf"}, Types<uint16_t>());
  enter<kAbsoluteHalf, Unary>(table, {"abs.f", "abs.bf"}, Types<uint16_t>());
  enter<kMinimum<false>, Binary>(table, {"min.f"}, Floats());
  enter<kMinimum<true>, Binary>(table, {"min.NaN.f"}, Types<float, F16>());
  enter<kMaximum<false>, Binary>(table, {"max.f"}, Floats());
  enter<kMaximum<true>, Binary>(table, {"max.NaN.f"}, Types<float, F16>());
  enter<kMinimum<false>, Binary>(table, {"min.bf"}, Types<BF16>());
  enter<kMinimum<true>, Binary>(table, {"min.NaN.bf"}, Types<BF16>());
  enter<kMaximum<false>, Binary>(table, {"max.bf"}, Types<BF16>());
  enter<kMaximum<true>, Binary>(table, {"max.NaN.bf"}, Types<BF16>());
}

} // namespace

void addArithmetic(InstructionTable &table) {
  addIntegers(table);
  addFloats(table);
}

} // namespace dtc::emulator
