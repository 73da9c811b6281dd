// Arithmetic on floats of 16 bits, alone and in pairs.
#include "Emulator/Interpreter/Half.h"

#include "Emulator/Interpreter/Elementwise.h"
#include "Emulator/Interpreter/FloatArithmetic.h"

#include <cmath>

namespace dtc::emulator {

namespace {

using Bits = Lanes<uint16_t>;
using Floats = Lanes<float>;

/// The k-th half of each lane's operand.
template <bool IsPair> Bits half(const Warp &warp, OperandCode operand, unsigned k) {
  if constexpr (IsPair)
    return convert<uint16_t, uint32_t>(warp.read<uint32_t>(operand) >> 16 * k);
  else
    return warp.read<uint16_t>(operand);
}

/// Applies a function of bits to the halves of `Inputs` operands.
template <bool IsPair, unsigned Inputs, typename Function>
void forHalves(Warp &warp, const Instruction &at, uint32_t mask, Function &&function) {
  Bits results[2];
  for (unsigned k = 0; k < (IsPair ? 2 : 1); ++k) {
    Bits inputs[Inputs];
    for (unsigned i = 0; i < Inputs; ++i)
      inputs[i] = half<IsPair>(warp, at.operands[i + 1], k);
    results[k] = function(inputs);
  }
  if constexpr (IsPair)
    warp.write<uint32_t>(at.operands[0],
                         convert<uint32_t, uint16_t>(results[0]) |
                             convert<uint32_t, uint16_t>(results[1]) << 16,
                         mask);
  else
    warp.write<uint16_t>(at.operands[0], results[0], mask);
}

Floats finishFloat(const Instruction &at, Floats value) {
  if (at.flags & kSaturate)
    value = saturate<float>(value);
  if (at.flags & kRelu)
    value = maximum<float>(value, Floats(0.0f), true);
  return value;
}

/// Sums, differences and products of halves are exact enough in 32 bits to be rounded a second
/// time.
template <HalfKind Kind, bool IsPair, unsigned Inputs, auto F>
void halfOperation(Warp &warp, const Instruction &at, uint32_t mask) {
  forHalves<IsPair, Inputs>(warp, at, mask, [&](const Bits *inputs) {
    if constexpr (Inputs == 1)
      return narrow<Kind>(finishFloat(at, F(widen<Kind>(inputs[0]))));
    else
      return narrow<Kind>(finishFloat(at, F(widen<Kind>(inputs[0]), widen<Kind>(inputs[1]))));
  });
}

template <HalfKind Kind, bool IsPair>
void halfFused(Warp &warp, const Instruction &at, uint32_t mask) {
  forHalves<IsPair, 3>(warp, at, mask, [&](const Bits *inputs) {
    auto wide = [&](unsigned i) { return convert<double, float>(widen<Kind>(inputs[i])); };
    Floats sum = roundToOdd(wide(0) * wide(1) + wide(2));
    return narrow<Kind>(finishFloat(at, sum));
  });
}

/// The sign is a bit; NaN keeps its payload.
template <bool IsPair, bool IsNegation>
void halfSign(Warp &warp, const Instruction &at, uint32_t mask) {
  forHalves<IsPair, 1>(warp, at, mask, [&](const Bits *inputs) -> Bits {
    return IsNegation ? inputs[0] ^ uint16_t(0x8000) : inputs[0] & uint16_t(0x7fff);
  });
}

constexpr auto kAdd = [](Floats a, Floats b) -> Floats { return a + b; };
constexpr auto kSubtract = [](Floats a, Floats b) -> Floats { return a - b; };
constexpr auto kMultiply = [](Floats a, Floats b) -> Floats { return a * b; };
template <bool Propagates>
constexpr auto kMinimum =
    [](Floats a, Floats b) -> Floats { return minimum<float>(a, b, Propagates); };
template <bool Propagates>
constexpr auto kMaximum =
    [](Floats a, Floats b) -> Floats { return maximum<float>(a, b, Propagates); };
constexpr auto kExponential = [](Floats a) -> Floats {
  return mapLanes<float>(a, [](float v) { return std::exp2(v); });
};
constexpr auto kHyperbolicTangent = [](Floats a) -> Floats {
  return mapLanes<float>(a, [](float v) { return std::tanh(v); });
};

template <unsigned Inputs, auto F> Handler chooseHalf(const std::string &type) {
  if (type == "f16")
    return halfOperation<HalfKind::F16, false, Inputs, F>;
  if (type == "f16x2")
    return halfOperation<HalfKind::F16, true, Inputs, F>;
  if (type == "bf16")
    return halfOperation<HalfKind::BF16, false, Inputs, F>;
  return halfOperation<HalfKind::BF16, true, Inputs, F>;
}

Handler chooseFused(const std::string &type) {
  if (type == "f16")
    return halfFused<HalfKind::F16, false>;
  if (type == "f16x2")
    return halfFused<HalfKind::F16, true>;
  if (type == "bf16")
    return halfFused<HalfKind::BF16, false>;
  return halfFused<HalfKind::BF16, true>;
}

Handler chooseSign(bool isPair, bool isNegation) {
  if (isPair)
    return isNegation ? halfSign<true, true> : halfSign<true, false>;
  return isNegation ? halfSign<false, true> : halfSign<false, false>;
}

Handler chooseBinary(const std::string &name, const std::string &type, bool propagates) {
  if (name == "add")
    return chooseHalf<2, kAdd>(type);
  if (name == "sub")
    return chooseHalf<2, kSubtract>(type);
  if (name == "mul")
    return chooseHalf<2, kMultiply>(type);
  if (name == "min")
    return propagates ? chooseHalf<2, kMinimum<true>>(type) : chooseHalf<2, kMinimum<false>>(type);
  if (name == "max")
    return propagates ? chooseHalf<2, kMaximum<true>>(type) : chooseHalf<2, kMaximum<false>>(type);
  return nullptr;
}

} // namespace

/// An instruction that other types have too, for f16, bf16, f16x2 or bf16x2.
Instruction decodeHalf(InstructionBuilder &builder, const std::string &type) {
  const std::string &name = builder.opcode();
  bool isPair = type.ends_with("x2");
  if (builder.take("ftz") && type.starts_with("f16"))
    builder.refuse(
        ".ftz of f16 isn't supported"); // bf16 has the range of f32: .ftz is the default there
  if (builder.take("sat"))
    builder.result().flags |= kSaturate;
  if (builder.take("relu"))
    builder.result().flags |= kRelu;
  builder.take("rn");
  if (name == "fma") {
    takeOperands(builder, type, 3);
    return builder.finish(chooseFused(type));
  }
  if (name == "neg" || name == "abs") {
    takeOperands(builder, type, 1);
    return builder.finish(chooseSign(isPair, name == "neg"));
  }
  if (name == "ex2" || name == "tanh") {
    builder.take("approx");
    takeOperands(builder, type, 1);
    return builder.finish(name == "ex2" ? chooseHalf<1, kExponential>(type)
                                        : chooseHalf<1, kHyperbolicTangent>(type));
  }
  bool propagates = builder.take("NaN");
  takeOperands(builder, type, 2);
  return builder.finish(chooseBinary(name, type, propagates));
}

} // namespace dtc::emulator
