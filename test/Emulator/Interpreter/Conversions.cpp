// cvt: between integers and floats of all widths.
#include "Emulator/Interpreter/Elementwise.h"
#include "Emulator/Interpreter/FloatArithmetic.h"
#include "Emulator/Interpreter/Half.h"

#include <cmath>

namespace dtc::emulator {

namespace {

/// To integers and to whole floats; the last is for floats of fewer bits.
enum Rounding : uint8_t { kNone, kNearestInteger, kTruncate, kFloor, kCeiling, kTowardsZero };

// Integers pass through 64 bits, whose sign says nothing for u64; floats through 64 bits too.

template <typename T> Lanes<int64_t> readAs(const Warp &warp, OperandCode operand, unsigned width) {
  switch (width) {
  case 2:
    return convert<int64_t, T>(convert<T, uint16_t>(warp.read<uint16_t>(operand)));
  case 4:
    return convert<int64_t, T>(convert<T, uint32_t>(warp.read<uint32_t>(operand)));
  default:
    return convert<int64_t, T>(convert<T, uint64_t>(warp.read<uint64_t>(operand)));
  }
}

/// `at.width` is the width of the register that is read.
template <typename T> Lanes<int64_t> readInteger(const Warp &warp, const Instruction &at) {
  return readAs<T>(warp, at.operands[1], at.width);
}

struct F16 {};
struct BF16 {};

template <typename T> Lanes<double> readFloat(const Warp &warp, const Instruction &at) {
  if constexpr (std::is_same_v<T, F16>)
    return convert<double, float>(widen<HalfKind::F16>(warp.read<uint16_t>(at.operands[1])));
  else if constexpr (std::is_same_v<T, BF16>)
    return convert<double, float>(widen<HalfKind::BF16>(warp.read<uint16_t>(at.operands[1])));
  else if constexpr (std::is_same_v<T, float>) {
    Lanes<float> value = warp.read<float>(at.operands[1]);
    return convert<double, float>(at.flags & kFlushSubnormals ? flushSubnormals<float>(value)
                                                              : value);
  } else
    return warp.read<double>(at.operands[1]);
}

/// A result may be narrower than its register, which then has its sign or zeroes above it.
template <typename T>
void writeInteger(Warp &warp, const Instruction &at, Lanes<int64_t> value, uint32_t mask) {
  Lanes<int64_t> extended = convert<int64_t, T>(convert<T, int64_t>(value));
  switch (static_cast<unsigned>(at.immediate)) {
  case 2:
    return warp.write<uint16_t>(at.operands[0], convert<uint16_t, int64_t>(extended), mask);
  case 4:
    return warp.write<uint32_t>(at.operands[0], convert<uint32_t, int64_t>(extended), mask);
  default:
    return warp.write<int64_t>(at.operands[0], extended, mask);
  }
}

Lanes<float> towardsZero(Lanes<double> value) {
  Lanes<float> odd = roundToOdd(value);
  Lanes<double> back = convert<double, float>(odd);
  uint32_t isAway = maskOf(__builtin_elementwise_abs(back) > __builtin_elementwise_abs(value));
  Lanes<uint32_t> bits = reinterpret<uint32_t, float>(odd);
  return reinterpret<float, uint32_t>(select<uint32_t>(isAway, bits - 1, bits));
}

template <HalfKind Kind> Lanes<uint16_t> toHalf(const Instruction &at, Lanes<double> value) {
  Lanes<float> single = roundToOdd(value);
  if (at.flags & kRelu)
    single = maximum<float>(single, Lanes<float>(0.0f), true);
  if (at.mode == kTowardsZero && Kind == HalfKind::BF16)
    return convert<uint16_t, uint32_t>(reinterpret<uint32_t, float>(single) >> 16);
  return narrow<Kind>(single);
}

template <typename T>
void writeFloat(Warp &warp, const Instruction &at, Lanes<double> value, uint32_t mask) {
  if (at.mode == kNearestInteger)
    value = __builtin_elementwise_roundeven(value);
  else if (at.mode == kTruncate)
    value = __builtin_elementwise_trunc(value);
  else if (at.mode == kFloor)
    value = __builtin_elementwise_floor(value);
  else if (at.mode == kCeiling)
    value = __builtin_elementwise_ceil(value);
  if (at.flags & kSaturate)
    value = saturate<double>(value);
  if constexpr (std::is_same_v<T, F16>) {
    warp.write<uint16_t>(at.operands[0], toHalf<HalfKind::F16>(at, value), mask);
  } else if constexpr (std::is_same_v<T, BF16>) {
    warp.write<uint16_t>(at.operands[0], toHalf<HalfKind::BF16>(at, value), mask);
  } else if constexpr (std::is_same_v<T, float>) {
    Lanes<float> single =
        at.mode == kTowardsZero ? towardsZero(value) : convert<float, double>(value);
    if (at.flags & kFlushSubnormals)
      single = flushSubnormals<float>(single);
    warp.write<float>(at.operands[0], single, mask);
  } else {
    warp.write<double>(at.operands[0], value, mask);
  }
}

template <typename To, typename From>
void integerToInteger(Warp &warp, const Instruction &at, uint32_t mask) {
  Lanes<int64_t> value = readInteger<From>(warp, at);
  if (at.flags & kSaturate) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      __int128 wide = static_cast<From>(value[lane]);
      __int128 low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
      value[lane] = static_cast<int64_t>(std::min(std::max(wide, low), high));
    }
  }
  writeInteger<To>(warp, at, value, mask);
}

/// From 32 bits and fewer an integer is exact in 64-bit floats; from 64 bits there is one rounding
/// alone.
template <typename To, typename From>
void integerToFloat(Warp &warp, const Instruction &at, uint32_t mask) {
  Lanes<From> value = convert<From, int64_t>(readInteger<From>(warp, at));
  if constexpr (sizeof(From) == 8 && std::is_same_v<To, float>)
    warp.write<float>(at.operands[0], convert<float, From>(value), mask);
  else
    writeFloat<To>(warp, at, convert<double, From>(value), mask);
}

/// Clamps to the range; NaN is 0, or for 64 bits the lowest or highest bit pattern as PTX says.
template <typename To> int64_t toInteger(double value, bool isWide) {
  if (std::isnan(value))
    return isWide ? static_cast<int64_t>(uint64_t(1) << (8 * sizeof(To) - 1)) : 0;
  if (value <= static_cast<double>(std::numeric_limits<To>::min()))
    return static_cast<int64_t>(std::numeric_limits<To>::min());
  if (value >= static_cast<double>(std::numeric_limits<To>::max()))
    return static_cast<int64_t>(std::numeric_limits<To>::max());
  return static_cast<int64_t>(static_cast<To>(value));
}

template <typename To, typename From>
void floatToInteger(Warp &warp, const Instruction &at, uint32_t mask) {
  Lanes<double> value = readFloat<From>(warp, at);
  switch (at.mode) {
  case kNearestInteger:
    value = __builtin_elementwise_roundeven(value);
    break;
  case kFloor:
    value = __builtin_elementwise_floor(value);
    break;
  case kCeiling:
    value = __builtin_elementwise_ceil(value);
    break;
  default:
    value = __builtin_elementwise_trunc(value);
    break;
  }
  constexpr bool isWide = std::is_same_v<From, double> || sizeof(To) == 8;
  writeInteger<To>(
      warp, at, mapLanes<int64_t>(value, [](double v) { return toInteger<To>(v, isWide); }), mask);
}

template <typename To, typename From>
void floatToFloat(Warp &warp, const Instruction &at, uint32_t mask) {
  writeFloat<To>(warp, at, readFloat<From>(warp, at), mask);
}

template <HalfKind Kind> void singleToHalf(Warp &warp, const Instruction &at, uint32_t mask) {
  warp.write<uint16_t>(at.operands[0], narrow<Kind>(warp.read<float>(at.operands[1])), mask);
}

template <HalfKind Kind> void halfToSingle(Warp &warp, const Instruction &at, uint32_t mask) {
  warp.write<float>(at.operands[0], widen<Kind>(warp.read<uint16_t>(at.operands[1])), mask);
}

/// The first operand becomes the high half.
template <HalfKind Kind> void singlesToPair(Warp &warp, const Instruction &at, uint32_t mask) {
  auto part = [&](unsigned i) {
    return convert<uint32_t, uint16_t>(
        toHalf<Kind>(at, convert<double, float>(warp.read<float>(at.operands[i]))));
  };
  warp.write<uint32_t>(at.operands[0], part(1) << 16 | part(2), mask);
}

/// To the nearest with 10 bits behind the point, ties away from zero.
void singleToTf32(Warp &warp, const Instruction &at, uint32_t mask) {
  Lanes<uint32_t> bits = warp.read<uint32_t>(at.operands[1]);
  warp.write<uint32_t>(at.operands[0], (bits + 0x1000) & ~0x1fffu, mask);
}

template <typename To, typename From> Handler pair() {
  constexpr bool fromInteger = std::is_integral_v<From>, toInteger = std::is_integral_v<To>;
  if constexpr (fromInteger && toInteger)
    return integerToInteger<To, From>;
  else if constexpr (fromInteger)
    return integerToFloat<To, From>;
  else if constexpr (toInteger)
    return floatToInteger<To, From>;
  else
    return floatToFloat<To, From>;
}

#define DTC_CHOOSE_CONVERSION(type, handler, ...)                                                  \
  ((type) == "u8"     ? handler<uint8_t, ##__VA_ARGS__>                                            \
   : (type) == "s8"   ? handler<int8_t, ##__VA_ARGS__>                                             \
   : (type) == "u16"  ? handler<uint16_t, ##__VA_ARGS__>                                           \
   : (type) == "s16"  ? handler<int16_t, ##__VA_ARGS__>                                            \
   : (type) == "u32"  ? handler<uint32_t, ##__VA_ARGS__>                                           \
   : (type) == "s32"  ? handler<int32_t, ##__VA_ARGS__>                                            \
   : (type) == "u64"  ? handler<uint64_t, ##__VA_ARGS__>                                           \
   : (type) == "s64"  ? handler<int64_t, ##__VA_ARGS__>                                            \
   : (type) == "f32"  ? handler<float, ##__VA_ARGS__>                                              \
   : (type) == "f64"  ? handler<double, ##__VA_ARGS__>                                             \
   : (type) == "f16"  ? handler<F16, ##__VA_ARGS__>                                                \
   : (type) == "bf16" ? handler<BF16, ##__VA_ARGS__>                                               \
                      : nullptr)

template <typename From> Handler chooseTo(const std::string &to) {
  Handler (*choose)() = DTC_CHOOSE_CONVERSION(to, pair, From);
  return choose ? choose() : nullptr;
}

Handler choosePair(const std::string &to, const std::string &from) {
  Handler (*choose)(const std::string &) = DTC_CHOOSE_CONVERSION(from, chooseTo);
  return choose ? choose(to) : nullptr;
}

bool isFloatName(const std::string &type) { return type.find('f') != type.npos; }

/// Conversions that lose nothing, or round once in the common way.
Handler chooseDirect(const std::string &to, const std::string &from, const Instruction &at) {
  if (at.flags != 0 || at.mode != kNone)
    return nullptr;
  if (from == "f32" && to == "bf16")
    return singleToHalf<HalfKind::BF16>;
  if (from == "f32" && to == "f16")
    return singleToHalf<HalfKind::F16>;
  if (from == "bf16" && to == "f32")
    return halfToSingle<HalfKind::BF16>;
  if (from == "f16" && to == "f32")
    return halfToSingle<HalfKind::F16>;
  return nullptr;
}

Instruction decodePair(InstructionBuilder &builder, const std::string &to) {
  builder.output(builder.operand(0), 4);
  builder.input(builder.operand(1), 4);
  builder.input(builder.operand(2), 4);
  return builder.finish(to == "f16x2" ? singlesToPair<HalfKind::F16>
                                      : singlesToPair<HalfKind::BF16>);
}

void takeRounding(InstructionBuilder &builder, bool narrowsHalf) {
  std::string mode = builder.takeOneOf({"rni", "rzi", "rmi", "rpi", "rn", "rna", "rz"});
  builder.result().mode = mode == "rni"   ? kNearestInteger
                          : mode == "rzi" ? kTruncate
                          : mode == "rmi" ? kFloor
                          : mode == "rpi" ? kCeiling
                          : mode == "rz"  ? kTowardsZero
                                          : kNone;
  if (mode == "rz" && narrowsHalf)
    builder.refuse(".rz to f16 isn't supported");
}

Instruction decodeConvert(InstructionBuilder &builder) {
  std::string from = builder.takeType(), to = builder.takeType();
  builder.takeFloatFlags();
  if (builder.take("relu"))
    builder.result().flags |= kRelu;
  takeRounding(builder, to.starts_with("f16"));
  Instruction &made = builder.result();
  if (made.mode == kTowardsZero && !isFloatName(from))
    builder.refuse("integers are rounded to the nearest alone");
  if (to == "f16x2" || to == "bf16x2")
    return from == "f32" ? decodePair(builder, to) : builder.finish(nullptr);
  if (to == "tf32") {
    builder.output(builder.operand(0), 4);
    builder.input(builder.operand(1), 4);
    return builder.finish(singleToTf32);
  }
  unsigned toBytes = ptx::bytesOfType(to, made.line), fromBytes = ptx::bytesOfType(from, made.line);
  made.immediate = builder.output(builder.operand(0), isFloatName(to) ? toBytes : 0);
  bool isImmediate = builder.operand(1).kind != ptx::Operand::Kind::Register;
  made.width = static_cast<uint8_t>(
      builder.input(builder.operand(1), isFloatName(from) || isImmediate ? fromBytes : 0));
  if (made.immediate < toBytes || made.width < fromBytes)
    builder.refuse("a register is narrower than its type");
  Handler direct = chooseDirect(to, from, made);
  return builder.finish(direct ? direct : choosePair(to, from));
}

} // namespace

void addConversions(DecodeTable &table) { table["cvt"] = decodeConvert; }

} // namespace dtc::emulator
