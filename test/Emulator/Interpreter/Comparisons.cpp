// setp, set and selp.
#include "Emulator/Interpreter/Elementwise.h"
#include "Emulator/Interpreter/FloatArithmetic.h"
#include "Emulator/Interpreter/Half.h"

namespace dtc::emulator {

namespace {

enum Comparison : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIsNumber,
  kIsNan
};
enum Combination : uint8_t { kAlone, kAnd, kOr, kXor };

constexpr uint8_t kUnordered = 16; // or true where one is NaN
constexpr unsigned kCombinationShift = 5;

template <typename T> uint32_t compareOrdered(uint8_t comparison, Lanes<T> a, Lanes<T> b) {
  switch (comparison) {
  case kEqual:
    return maskOf(a == b);
  case kNotEqual:
    return maskOf(a != b);
  case kLess:
    return maskOf(a < b);
  case kLessEqual:
    return maskOf(a <= b);
  case kGreater:
    return maskOf(a > b);
  case kGreaterEqual:
    return maskOf(a >= b);
  case kIsNumber:
    return maskOf((a == a) & (b == b));
  default:
    return maskOf((a != a) | (b != b));
  }
}

template <typename T> uint32_t compare(const Instruction &at, Lanes<T> a, Lanes<T> b) {
  uint8_t comparison = at.mode & 15;
  if constexpr (std::is_floating_point_v<T>) {
    if (at.flags & kFlushSubnormals) {
      a = flushSubnormals<T>(a);
      b = flushSubnormals<T>(b);
    }
    uint32_t isNan = maskOf((a != a) | (b != b));
    uint32_t result = compareOrdered<T>(comparison, a, b);
    if (comparison >= kIsNumber)
      return result;
    return at.mode & kUnordered ? result | isNan : result & ~isNan;
  }
  return compareOrdered<T>(comparison, a, b);
}

uint32_t combine(const Warp &warp, const Instruction &at, uint32_t result, unsigned operand) {
  uint8_t combination = at.mode >> kCombinationShift;
  if (combination == kAlone)
    return result;
  uint32_t other = warp.readPredicate(at.operands[operand]);
  if (at.flags & kNegatePredicate)
    other = ~other;
  return combination == kAnd  ? result & other
         : combination == kOr ? result | other
                              : result ^ other;
}

/// Two results: the comparison, and its opposite; each combined with a third predicate where one is
/// given.
template <typename T, bool> void setPredicate(Warp &warp, const Instruction &at, uint32_t mask) {
  uint32_t result = compare<T>(at, warp.read<T>(at.operands[2]), warp.read<T>(at.operands[3]));
  uint32_t yes = combine(warp, at, result, 4), no = combine(warp, at, ~result, 4);
  warp.writePredicate(at.operands[0], yes, mask);
  warp.writePredicate(at.operands[1], no, mask);
}

template <HalfKind Kind> void setPredicateHalf(Warp &warp, const Instruction &at, uint32_t mask) {
  uint32_t result = compare<float>(at, widen<Kind>(warp.read<uint16_t>(at.operands[2])),
                                   widen<Kind>(warp.read<uint16_t>(at.operands[3])));
  uint32_t yes = combine(warp, at, result, 4), no = combine(warp, at, ~result, 4);
  warp.writePredicate(at.operands[0], yes, mask);
  warp.writePredicate(at.operands[1], no, mask);
}

/// The two results are the comparisons of the low and of the high halves.
template <HalfKind Kind> void setPredicatePair(Warp &warp, const Instruction &at, uint32_t mask) {
  Lanes<uint32_t> a = warp.read<uint32_t>(at.operands[2]), b = warp.read<uint32_t>(at.operands[3]);
  for (unsigned k = 0; k < 2; ++k) {
    auto part = [&](Lanes<uint32_t> v) {
      return widen<Kind>(convert<uint16_t, uint32_t>(v >> 16 * k));
    };
    warp.writePredicate(at.operands[k], combine(warp, at, compare<float>(at, part(a), part(b)), 4),
                        mask);
  }
}

/// The immediate is what a lane gets where the comparison holds.
template <typename T, bool> void setValue(Warp &warp, const Instruction &at, uint32_t mask) {
  uint32_t result = compare<T>(at, warp.read<T>(at.operands[1]), warp.read<T>(at.operands[2]));
  result = combine(warp, at, result, 3);
  warp.write<uint32_t>(
      at.operands[0],
      select<uint32_t>(result, Lanes<uint32_t>(uint32_t(at.immediate)), Lanes<uint32_t>(0u)), mask);
}

#define DTC_CHOOSE_COMPARED(type, handler)                                                         \
  ((type) == "f32"    ? (Handler)handler<float, true>                                              \
   : (type) == "f64"  ? (Handler)handler<double, true>                                             \
   : (type)[0] == 'b' ? DTC_CHOOSE_BITS(type, handler, true)                                       \
                      : DTC_CHOOSE_INTEGER(type, handler, true))

void takeComparison(InstructionBuilder &builder) {
  static const std::map<std::string, uint8_t, std::less<>> names = {
      {"eq", kEqual},
      {"ne", kNotEqual},
      {"lt", kLess},
      {"le", kLessEqual},
      {"gt", kGreater},
      {"ge", kGreaterEqual},
      {"lo", kLess},
      {"ls", kLessEqual},
      {"hi", kGreater},
      {"hs", kGreaterEqual},
      {"equ", kEqual | kUnordered},
      {"neu", kNotEqual | kUnordered},
      {"ltu", kLess | kUnordered},
      {"leu", kLessEqual | kUnordered},
      {"gtu", kGreater | kUnordered},
      {"geu", kGreaterEqual | kUnordered},
      {"num", kIsNumber},
      {"nan", kIsNan}};
  uint8_t mode = 0xff;
  for (const auto &[name, value] : names)
    if (builder.take(name)) {
      mode = value;
      break;
    }
  if (mode == 0xff)
    builder.refuse("it has no comparison");
  std::string combination = builder.takeOneOf({"and", "or", "xor"});
  uint8_t code = combination == "and"   ? kAnd
                 : combination == "or"  ? kOr
                 : combination == "xor" ? kXor
                                        : kAlone;
  builder.result().mode = static_cast<uint8_t>(mode | code << kCombinationShift);
  if (builder.take("ftz"))
    builder.result().flags |= kFlushSubnormals;
}

/// The compared operands, and the predicate that the result is combined with.
void takeCompared(InstructionBuilder &builder, const std::string &type, size_t first) {
  unsigned bytes = ptx::bytesOfType(type, builder.result().line);
  builder.input(builder.operand(first), bytes);
  builder.input(builder.operand(first + 1), bytes);
  bool isCombined = builder.result().mode >> kCombinationShift;
  if (builder.operandCount() != first + 2 + isCombined)
    builder.refuse("it has " + std::to_string(builder.operandCount()) + " operands");
  if (isCombined) {
    builder.predicateInput(builder.operand(first + 2));
    if (builder.operand(first + 2).isNegated)
      builder.result().flags |= kNegatePredicate;
  }
}

Instruction decodeSetPredicate(InstructionBuilder &builder) {
  std::string type = builder.takeType();
  takeComparison(builder);
  size_t expected = 3 + (builder.result().mode >> kCombinationShift != 0);
  bool hasTwo = builder.operandCount() > expected;
  builder.predicateOutput(builder.operand(0));
  builder.predicateOutput(hasTwo ? builder.operand(1) : ptx::Operand{});
  takeCompared(builder, type, hasTwo ? 2 : 1);
  if (type == "f16" || type == "bf16")
    return builder.finish(type == "f16" ? setPredicateHalf<HalfKind::F16>
                                        : setPredicateHalf<HalfKind::BF16>);
  if (type == "f16x2" || type == "bf16x2")
    return builder.finish(type == "f16x2" ? setPredicatePair<HalfKind::F16>
                                          : setPredicatePair<HalfKind::BF16>);
  return builder.finish(DTC_CHOOSE_COMPARED(type, setPredicate));
}

Instruction decodeSetValue(InstructionBuilder &builder) {
  std::string type = builder.takeType(), resultType = builder.takeType();
  takeComparison(builder);
  builder.output(builder.operand(0), 4);
  takeCompared(builder, type, 1);
  if (resultType != "u32" && resultType != "s32" && resultType != "f32")
    builder.refuse("results of type " + resultType + " aren't supported");
  builder.result().immediate = resultType == "f32" ? 0x3f800000 : 0xffffffff;
  return builder.finish(DTC_CHOOSE_COMPARED(type, setValue));
}

template <typename T, bool> void selectValue(Warp &warp, const Instruction &at, uint32_t mask) {
  uint32_t condition = warp.readPredicate(at.operands[3]);
  if (at.flags & kNegatePredicate)
    condition = ~condition;
  warp.write<T>(at.operands[0],
                select<T>(condition, warp.read<T>(at.operands[1]), warp.read<T>(at.operands[2])),
                mask);
}

Instruction decodeSelect(InstructionBuilder &builder) {
  std::string type = builder.takeType();
  unsigned bytes = ptx::bytesOfType(type, builder.result().line);
  builder.output(builder.operand(0), bytes);
  builder.input(builder.operand(1), bytes);
  builder.input(builder.operand(2), bytes);
  builder.predicateInput(builder.operand(3));
  if (builder.operand(3).isNegated)
    builder.result().flags |= kNegatePredicate;
  std::string bits = "b" + std::to_string(bytes * 8);
  return builder.finish(DTC_CHOOSE_BITS(bits, selectValue, true));
}

} // namespace

void addComparisons(DecodeTable &table) {
  table["setp"] = decodeSetPredicate;
  table["set"] = decodeSetValue;
  table["selp"] = decodeSelect;
}

} // namespace dtc::emulator
