// Arithmetic on floats of 32 and 64 bits, and the choice between floats and integers by type.
#include "Emulator/Interpreter/FloatArithmetic.h"

#include "Emulator/Interpreter/Elementwise.h"

#include <cmath>
#include <xmmintrin.h>

namespace dtc::emulator {

Instruction decodeIntegerMultiply(InstructionBuilder &builder, const std::string &type,
                                  bool hasAddend);
Instruction decodeIntegerForm(InstructionBuilder &builder, const std::string &type);
Instruction decodeHalf(InstructionBuilder &builder, const std::string &type);

namespace {

/// Rounding modes of arithmetic, as the processor's control register has them.
enum Rounding : uint8_t { kNearest = 0, kDown = 1, kUp = 2, kTowardsZero = 3 };

/// Sets the processor's rounding. Values are loaded behind its beginning and stored before its end.
class RoundingScope {
public:
  explicit RoundingScope(uint8_t mode) : isChanged(mode != kNearest) {
    if (isChanged) {
      saved = _mm_getcsr();
      _mm_setcsr((saved & ~0x6000u) | uint32_t(mode) << 13);
      asm volatile("" ::: "memory");
    }
  }
  ~RoundingScope() {
    if (isChanged) {
      asm volatile("" ::: "memory");
      _mm_setcsr(saved);
    }
  }

private:
  bool isChanged;
  uint32_t saved = 0;
};

template <typename T> Lanes<T> input(const Warp &warp, const Instruction &at, unsigned index) {
  Lanes<T> value = warp.read<T>(at.operands[index]);
  return at.flags & kFlushSubnormals ? flushSubnormals<T>(value) : value;
}

template <typename T>
void output(Warp &warp, const Instruction &at, Lanes<T> value, uint32_t mask) {
  if (at.flags & kFlushSubnormals)
    value = flushSubnormals<T>(value);
  if (at.flags & kSaturate)
    value = saturate<T>(value);
  warp.write<T>(at.operands[0], value, mask);
}

template <typename T, auto F> void floatUnary(Warp &warp, const Instruction &at, uint32_t mask) {
  RoundingScope scope(at.mode);
  output<T>(warp, at, F(input<T>(warp, at, 1)), mask);
}

template <typename T, auto F> void floatBinary(Warp &warp, const Instruction &at, uint32_t mask) {
  RoundingScope scope(at.mode);
  output<T>(warp, at, F(input<T>(warp, at, 1), input<T>(warp, at, 2)), mask);
}

template <typename T, auto F> void floatTernary(Warp &warp, const Instruction &at, uint32_t mask) {
  RoundingScope scope(at.mode);
  output<T>(warp, at, F(input<T>(warp, at, 1), input<T>(warp, at, 2), input<T>(warp, at, 3)), mask);
}

/// A function of the C library for each lane, the active ones alone.
template <typename T, auto F> void floatMapped(Warp &warp, const Instruction &at, uint32_t mask) {
  Lanes<T> value = input<T>(warp, at, 1), result = value;
  forLanes(mask, [&](unsigned lane) { result[lane] = F(value[lane]); });
  output<T>(warp, at, result, mask);
}

constexpr auto kAdd = []<typename V>(V a, V b) -> V { return a + b; };
constexpr auto kSubtract = []<typename V>(V a, V b) -> V { return a - b; };
constexpr auto kMultiply = []<typename V>(V a, V b) -> V { return a * b; };
constexpr auto kDivide = []<typename V>(V a, V b) -> V { return a / b; };
constexpr auto kFusedMultiplyAdd = []<typename V>(V a, V b, V c) -> V {
  return __builtin_elementwise_fma(a, b, c);
};
constexpr auto kNegate = []<typename V>(V a) -> V { return -a; };
constexpr auto kAbsolute = []<typename V>(V a) -> V { return __builtin_elementwise_abs(a); };
constexpr auto kReciprocal = []<typename V>(V a) -> V { return 1 / a; };
constexpr auto kSquareRoot = []<typename V>(V a) -> V { return __builtin_elementwise_sqrt(a); };
constexpr auto kReciprocalRoot = []<typename V>(V a) -> V {
  return 1 / __builtin_elementwise_sqrt(a);
};
template <bool Propagates>
constexpr auto kMinimum =
    []<typename V>(V a, V b) -> V { return minimum<ElementOf<V>>(a, b, Propagates); };
template <bool Propagates>
constexpr auto kMaximum =
    []<typename V>(V a, V b) -> V { return maximum<ElementOf<V>>(a, b, Propagates); };
constexpr auto kSine = [](float a) { return std::sin(a); };
constexpr auto kCosine = [](float a) { return std::cos(a); };
constexpr auto kLogarithm = [](float a) { return std::log2(a); };
constexpr auto kExponential = [](float a) { return std::exp2(a); };
constexpr auto kHyperbolicTangent = [](float a) { return std::tanh(a); };
constexpr auto kCopySign = []<typename V>(V sign, V a) -> V {
  return __builtin_elementwise_copysign(a, sign);
};

#define DTC_CHOOSE_FLOAT(type, handler, ...)                                                       \
  ((type) == "f32"   ? (Handler)handler<float, __VA_ARGS__>                                        \
   : (type) == "f64" ? (Handler)handler<double, __VA_ARGS__>                                       \
                     : (Handler) nullptr)

bool isFloat(const std::string &type) { return type == "f32" || type == "f64"; }
bool isHalf(const std::string &type) {
  return type == "f16" || type == "bf16" || type == "f16x2" || type == "bf16x2";
}

void takeRounding(InstructionBuilder &builder) {
  std::string mode = builder.takeOneOf({"rn", "rz", "rm", "rp"});
  builder.result().mode = mode == "rm"   ? kDown
                          : mode == "rp" ? kUp
                          : mode == "rz" ? kTowardsZero
                                         : kNearest;
}

Instruction decodeMinimum(InstructionBuilder &builder, const std::string &type) {
  bool propagates = builder.take("NaN");
  takeOperands(builder, type, 2);
  if (builder.opcode() == "min")
    return builder.finish(propagates ? DTC_CHOOSE_FLOAT(type, floatBinary, kMinimum<true>)
                                     : DTC_CHOOSE_FLOAT(type, floatBinary, kMinimum<false>));
  return builder.finish(propagates ? DTC_CHOOSE_FLOAT(type, floatBinary, kMaximum<true>)
                                   : DTC_CHOOSE_FLOAT(type, floatBinary, kMaximum<false>));
}

/// add, sub, mul, div, min, max, neg and abs of every type.
Instruction decodeArithmetic(InstructionBuilder &builder) {
  std::string type = builder.takeType();
  const std::string &name = builder.opcode();
  if (isHalf(type))
    return decodeHalf(builder, type);
  if (!isFloat(type))
    return name == "mul" ? decodeIntegerMultiply(builder, type, false)
                         : decodeIntegerForm(builder, type);
  builder.takeFloatFlags();
  if (name == "min" || name == "max")
    return decodeMinimum(builder, type);
  takeRounding(builder);
  if (name == "neg" || name == "abs") {
    takeOperands(builder, type, 1);
    return builder.finish(name == "neg" ? DTC_CHOOSE_FLOAT(type, floatUnary, kNegate)
                                        : DTC_CHOOSE_FLOAT(type, floatUnary, kAbsolute));
  }
  takeOperands(builder, type, 2);
  if (name == "div") { // the approximations are computed exactly
    builder.takeOneOf({"approx", "full"});
    return builder.finish(DTC_CHOOSE_FLOAT(type, floatBinary, kDivide));
  }
  return builder.finish(name == "add"   ? DTC_CHOOSE_FLOAT(type, floatBinary, kAdd)
                        : name == "sub" ? DTC_CHOOSE_FLOAT(type, floatBinary, kSubtract)
                                        : DTC_CHOOSE_FLOAT(type, floatBinary, kMultiply));
}

/// fma, and mad, which is the same for floats.
Instruction decodeFused(InstructionBuilder &builder) {
  std::string type = builder.takeType();
  if (isHalf(type))
    return decodeHalf(builder, type);
  if (!isFloat(type))
    return decodeIntegerMultiply(builder, type, true);
  builder.takeFloatFlags();
  takeRounding(builder);
  takeOperands(builder, type, 3);
  return builder.finish(DTC_CHOOSE_FLOAT(type, floatTernary, kFusedMultiplyAdd));
}

template <auto F> Instruction decodeRoot(InstructionBuilder &builder) {
  std::string type = builder.takeType();
  builder.takeFloatFlags();
  builder.take("approx");
  takeRounding(builder);
  takeOperands(builder, type, 1);
  return builder.finish(DTC_CHOOSE_FLOAT(type, floatUnary, F));
}

template <auto F> Instruction decodeApproximation(InstructionBuilder &builder) {
  std::string type = builder.takeType();
  if (isHalf(type))
    return decodeHalf(builder, type);
  builder.takeFloatFlags();
  if (!builder.take("approx"))
    builder.refuse("it lacks .approx");
  takeOperands(builder, type, 1);
  return builder.finish(type == "f32" ? floatMapped<float, F> : nullptr);
}

} // namespace

void addFloatInstructions(DecodeTable &table) {
  for (const char *name : {"add", "sub", "mul", "div", "min", "max", "neg", "abs"})
    table[name] = decodeArithmetic;
  table["fma"] = table["mad"] = decodeFused;
  table["rcp"] = decodeRoot<kReciprocal>;
  table["sqrt"] = decodeRoot<kSquareRoot>;
  table["rsqrt"] = decodeRoot<kReciprocalRoot>;
  table["sin"] = decodeApproximation<kSine>;
  table["cos"] = decodeApproximation<kCosine>;
  table["lg2"] = decodeApproximation<kLogarithm>;
  table["ex2"] = decodeApproximation<kExponential>;
  table["tanh"] = decodeApproximation<kHyperbolicTangent>;
  table["copysign"] = [](InstructionBuilder &builder) {
    std::string type = builder.takeType();
    takeOperands(builder, type, 2);
    return builder.finish(DTC_CHOOSE_FLOAT(type, floatBinary, kCopySign));
  };
}

} // namespace dtc::emulator
