// cvt: between integers and floats of all widths.
#include "Emulator/Interpreter/Instructions.h"

#include <cmath>
#include <limits>

namespace dtc::emulator {

namespace {

using Integers = Types<uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>;

template <typename T> std::string nameOf() {
  if constexpr (std::is_same_v<T, BF16>)
    return "bf16";
  const char *kind = std::is_unsigned_v<T> ? "u" : std::is_integral_v<T> ? "s" : "f";
  return kind + std::to_string(8 * sizeof(T));
}

template <typename To, typename From>
constexpr auto kConvert = [](Lanes<From> value) { return convert<To, From>(value); };

/// The low bits of a register, with their sign above them.
template <typename Part, typename To>
constexpr auto kExtendSign =
    []<typename V>(V value) { return convert<To, Part>(convert<Part, ElementOf<V>>(value)); };

/// To a half by way of 64 bits: there is one rounding alone.
template <typename From>
constexpr auto kRoundToHalf =
    [](Lanes<From> value) { return roundToOdd(convert<double, From>(value)); };

/// Clamps to the range; NaN is 0, or for 64 bits the highest bit alone as PTX says.
template <typename To> To toInteger(double value, bool isWide) {
  using Limits = std::numeric_limits<To>;
  if (std::isnan(value))
    return isWide ? static_cast<To>(UnsignedLike<To>(1) << (8 * sizeof(To) - 1)) : To(0);
  if (value <= static_cast<double>(Limits::min()))
    return Limits::min();
  return value >= static_cast<double>(Limits::max()) ? Limits::max() : static_cast<To>(value);
}

template <typename To, bool IsWide>
constexpr auto kTruncate = [](auto value) {
  return mapLanes<To>(value, [](double v) { return toInteger<To>(v, IsWide); });
};

template <typename To, typename... From>
void addFromIntegers(InstructionTable &table, Types<From...>) {
  // Neither wider nor narrower registers care which sign the result has.
  for (const char *kind : {"cvt.u", "cvt.s"})
    (enterOne<kConvert<To, From>, To(From)>(table, kind + std::to_string(8 * sizeof(To)) + "." +
                                                       nameOf<From>()),
     ...);
}

template <typename... From> void addToFloats(InstructionTable &table, Types<From...>) {
  (enterOne<kConvert<float, From>, float(From)>(table, "cvt.rn.f32." + nameOf<From>()), ...);
  (enterOne<kConvert<double, From>, double(From)>(table, "cvt.rn.f64." + nameOf<From>()), ...);
  (enterOne<kRoundToHalf<From>, F16(From)>(table, "cvt.rn.f16." + nameOf<From>()), ...);
}

template <typename From, typename... To> void addToIntegers(InstructionTable &table, Types<To...>) {
  (enterOne<kTruncate<To, sizeof(From) == 8 || sizeof(To) == 8>, To(From)>(
       table, "cvt.rzi." + nameOf<To>() + "." + nameOf<From>()),
   ...);
}

constexpr auto kNearest = []<typename V>(V a) -> V { return __builtin_elementwise_roundeven(a); };
constexpr auto kTowardsZero = []<typename V>(V a) -> V { return __builtin_elementwise_trunc(a); };
constexpr auto kFloor = []<typename V>(V a) -> V { return __builtin_elementwise_floor(a); };
constexpr auto kCeiling = []<typename V>(V a) -> V { return __builtin_elementwise_ceil(a); };

template <auto F> void addRounding(InstructionTable &table, const std::string &mode) {
  enterOne<F, float(float)>(table, "cvt." + mode + ".f32.f32");
  enterOne<F, double(double)>(table, "cvt." + mode + ".f64.f64");
  enterOne<F, F16(F16)>(table, "cvt." + mode + ".f16.f16");
}

constexpr auto kSame = [](Lanes<float> value) { return value; };

/// The first operand becomes the high half.
template <HalfKind Kind>
constexpr auto kPair = [](Lanes<float> high, Lanes<float> low) {
  auto bits = [](Lanes<float> value) { return convert<uint32_t, uint16_t>(narrow<Kind>(value)); };
  return bits(high) << 16 | bits(low);
};

void addFloatConversions(InstructionTable &table) {
  enterOne<kConvert<double, float>, double(float)>(table, "cvt.f64.f32");
  enterOne<kConvert<double, float>, double(F16)>(table, "cvt.f64.f16");
  enterOne<kConvert<float, double>, float(double)>(table, "cvt.rn.f32.f64");
  enterOne<kRoundToHalf<double>, F16(double)>(table, "cvt.rn.f16.f64");
  enterOne<kSame, float(F16)>(table, "cvt.f32.f16");
  enterOne<kSame, float(BF16)>(table, "cvt.f32.bf16");
  enterOne<kSame, F16(float)>(table, "cvt.rn.f16.f32");
  enterOne<kSame, BF16(float)>(table, "cvt.rn.bf16.f32");
  enterOne<kPair<HalfKind::F16>, uint32_t(float, float)>(table, "cvt.rn.f16x2.f32");
  enterOne<kPair<HalfKind::BF16>, uint32_t(float, float)>(table, "cvt.rn.bf16x2.f32");
}

} // namespace

void addConversions(InstructionTable &table) {
  addFromIntegers<uint16_t>(table, Integers());
  addFromIntegers<uint32_t>(table, Integers());
  addFromIntegers<uint64_t>(table, Integers());
  enterOne<kExtendSign<int8_t, uint16_t>, uint16_t(uint16_t)>(table, "cvt.s16.s8");
  enterOne<kExtendSign<int8_t, uint16_t>, uint16_t(uint32_t)>(table, "cvt.s8.s32");
  enterOne<kExtendSign<int8_t, uint16_t>, uint16_t(uint64_t)>(table, "cvt.s8.s64");
  enterOne<kExtendSign<int8_t, uint32_t>, uint32_t(uint32_t)>(table, "cvt.s32.s8");
  enterOne<kExtendSign<int16_t, uint32_t>, uint32_t(uint32_t)>(table, "cvt.s32.s16");
  enterOne<kExtendSign<int8_t, uint64_t>, uint64_t(uint64_t)>(table, "cvt.s64.s8");
  enterOne<kExtendSign<int16_t, uint64_t>, uint64_t(uint64_t)>(table, "cvt.s64.s16");
  enterOne<kExtendSign<int32_t, uint64_t>, uint64_t(uint64_t)>(table, "cvt.s64.s32");
  addToFloats(table, Integers());
  addToIntegers<float>(table, Integers());
  addToIntegers<double>(table, Integers());
  addToIntegers<F16>(table, Integers());
  addRounding<kNearest>(table, "rni");
  addRounding<kTowardsZero>(table, "rzi");
  addRounding<kFloor>(table, "rmi");
  addRounding<kCeiling>(table, "rpi");
  addFloatConversions(table);
}

} // namespace dtc::emulator
