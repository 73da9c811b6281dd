// Arithmetic on integers.
#include "Emulator/Device/Fault.h"
#include "Emulator/Interpreter/Elementwise.h"
#include "dtc-cuda/Driver.h"

#include <limits>

namespace dtc::emulator {

namespace {

template <typename T> struct WiderOf;
template <> struct WiderOf<uint16_t> {
  using Type = uint32_t;
};
template <> struct WiderOf<int16_t> {
  using Type = int32_t;
};
template <> struct WiderOf<uint32_t> {
  using Type = uint64_t;
};
template <> struct WiderOf<int32_t> {
  using Type = int64_t;
};
template <> struct WiderOf<uint64_t> {
  using Type = unsigned __int128;
};
template <> struct WiderOf<int64_t> {
  using Type = __int128;
};
template <typename T> using Wider = typename WiderOf<T>::Type;

/// Overflow is defined in PTX, so arithmetic runs on unsigned values.
template <typename T> Lanes<UnsignedLike<T>> asUnsigned(Lanes<T> value) {
  return reinterpret<UnsignedLike<T>, T>(value);
}
template <typename T> Lanes<T> asType(Lanes<UnsignedLike<T>> value) {
  return reinterpret<T, UnsignedLike<T>>(value);
}

constexpr auto kAdd = []<typename V>(V a, V b) -> V {
  using T = ElementOf<V>;
  return asType<T>(asUnsigned<T>(a) + asUnsigned<T>(b));
};
constexpr auto kSubtract = []<typename V>(V a, V b) -> V {
  using T = ElementOf<V>;
  return asType<T>(asUnsigned<T>(a) - asUnsigned<T>(b));
};
constexpr auto kMultiplyLow = []<typename V>(V a, V b) -> V {
  using T = ElementOf<V>;
  return asType<T>(asUnsigned<T>(a) * asUnsigned<T>(b));
};
constexpr auto kMultiplyHigh = []<typename V>(V a, V b) -> V {
  using T = ElementOf<V>;
  V result;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    result[lane] = static_cast<T>((Wider<T>(a[lane]) * Wider<T>(b[lane])) >> (8 * sizeof(T)));
  return result;
};
constexpr auto kMadLow = []<typename V>(V a, V b, V c) -> V { return kAdd(kMultiplyLow(a, b), c); };
constexpr auto kMadHigh = []<typename V>(V a, V b, V c) -> V {
  return kAdd(kMultiplyHigh(a, b), c);
};
constexpr auto kMinimum = []<typename V>(V a, V b) -> V { return __builtin_elementwise_min(a, b); };
constexpr auto kMaximum = []<typename V>(V a, V b) -> V { return __builtin_elementwise_max(a, b); };
constexpr auto kNegate = []<typename V>(V a) -> V { return kSubtract(V(0), a); };
constexpr auto kAbsolute = []<typename V>(V a) -> V { return a < 0 ? kNegate(a) : a; };
constexpr auto kSumOfDifferences = []<typename V>(V a, V b, V c) -> V {
  return kAdd(a < b ? kSubtract(b, a) : kSubtract(a, b), c);
};
constexpr auto kAddSaturated = []<typename V>(V a, V b) -> V {
  return __builtin_elementwise_add_sat(a, b);
};
constexpr auto kSubtractSaturated = []<typename V>(V a, V b) -> V {
  return __builtin_elementwise_sub_sat(a, b);
};

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

template <typename T, bool HasAddend>
void multiplyWide(Warp &warp, const Instruction &at, uint32_t mask) {
  using Wide = Wider<T>;
  using Bits = UnsignedLike<Wide>;
  Lanes<Bits> a = reinterpret<Bits, Wide>(convert<Wide, T>(warp.read<T>(at.operands[1])));
  Lanes<Bits> b = reinterpret<Bits, Wide>(convert<Wide, T>(warp.read<T>(at.operands[2])));
  Lanes<Bits> result = a * b;
  if constexpr (HasAddend)
    result += warp.read<Bits>(at.operands[3]);
  warp.write<Bits>(at.operands[0], result, mask);
}

template <bool HasAddend> Handler chooseWide(const std::string &type) {
  if (type == "u16")
    return multiplyWide<uint16_t, HasAddend>;
  if (type == "s16")
    return multiplyWide<int16_t, HasAddend>;
  if (type == "u32")
    return multiplyWide<uint32_t, HasAddend>;
  if (type == "s32")
    return multiplyWide<int32_t, HasAddend>;
  return nullptr;
}

Instruction decodeWide(InstructionBuilder &builder, const std::string &type, bool hasAddend) {
  unsigned bytes = ptx::bytesOfType(type, builder.result().line);
  builder.output(builder.operand(0), bytes * 2);
  builder.input(builder.operand(1), bytes);
  builder.input(builder.operand(2), bytes);
  if (hasAddend)
    builder.input(builder.operand(3), bytes * 2);
  return builder.finish(hasAddend ? chooseWide<true>(type) : chooseWide<false>(type));
}

} // namespace

/// mul and mad of integers; those of floats are in FloatInstructions.cpp.
Instruction decodeIntegerMultiply(InstructionBuilder &builder, const std::string &type,
                                  bool hasAddend) {
  std::string part = builder.takeOneOf({"lo", "hi", "wide"});
  if (part.empty())
    builder.refuse("it lacks .lo, .hi or .wide");
  if (part == "wide")
    return decodeWide(builder, type, hasAddend);
  takeOperands(builder, type, hasAddend ? 3 : 2);
  if (part == "lo")
    return builder.finish(hasAddend ? DTC_CHOOSE_INTEGER(type, ternary, kMadLow)
                                    : DTC_CHOOSE_INTEGER(type, binary, kMultiplyLow));
  return builder.finish(hasAddend ? DTC_CHOOSE_INTEGER(type, ternary, kMadHigh)
                                  : DTC_CHOOSE_INTEGER(type, binary, kMultiplyHigh));
}

/// The integer form of an instruction that floats have too.
Instruction decodeIntegerForm(InstructionBuilder &builder, const std::string &type) {
  const std::string &name = builder.opcode();
  bool isUnary = name == "neg" || name == "abs";
  takeOperands(builder, type, isUnary ? 1 : 2);
  if (builder.take("sat"))
    return builder.finish(type != "s32"   ? nullptr
                          : name == "add" ? binary<int32_t, kAddSaturated>
                          : name == "sub" ? binary<int32_t, kSubtractSaturated>
                                          : nullptr);
  if (name == "add")
    return builder.finish(DTC_CHOOSE_INTEGER(type, binary, kAdd));
  if (name == "sub")
    return builder.finish(DTC_CHOOSE_INTEGER(type, binary, kSubtract));
  if (name == "min")
    return builder.finish(DTC_CHOOSE_INTEGER(type, binary, kMinimum));
  if (name == "max")
    return builder.finish(DTC_CHOOSE_INTEGER(type, binary, kMaximum));
  if (name == "div")
    return builder.finish(DTC_CHOOSE_INTEGER(type, divide, true));
  if (name == "neg")
    return builder.finish(DTC_CHOOSE_INTEGER(type, unary, kNegate));
  return builder.finish(DTC_CHOOSE_INTEGER(type, unary, kAbsolute));
}

void addIntegerInstructions(DecodeTable &table) {
  table["rem"] = [](InstructionBuilder &builder) {
    std::string type = builder.takeType();
    takeOperands(builder, type, 2);
    return builder.finish(DTC_CHOOSE_INTEGER(type, divide, false));
  };
  table["sad"] = [](InstructionBuilder &builder) {
    std::string type = builder.takeType();
    takeOperands(builder, type, 3);
    return builder.finish(DTC_CHOOSE_INTEGER(type, ternary, kSumOfDifferences));
  };
}

} // namespace dtc::emulator
