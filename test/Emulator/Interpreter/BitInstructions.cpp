// Logic, shifts, and instructions on single bits and bytes.
#include "Emulator/Interpreter/Elementwise.h"

namespace dtc::emulator {

namespace {

constexpr auto kAnd = []<typename V>(V a, V b) -> V { return a & b; };
constexpr auto kOr = []<typename V>(V a, V b) -> V { return a | b; };
constexpr auto kXor = []<typename V>(V a, V b) -> V { return a ^ b; };
constexpr auto kNot = []<typename V>(V a) -> V { return ~a; };
constexpr auto kLogicalNot = []<typename V>(V a) -> V { return a == 0 ? V(1) : V(0); };

template <auto F> void predicateBinary(Warp &warp, const Instruction &at, uint32_t mask) {
  warp.writePredicate(at.operands[0],
                      F(warp.readPredicate(at.operands[1]), warp.readPredicate(at.operands[2])),
                      mask);
}

void predicateNot(Warp &warp, const Instruction &at, uint32_t mask) {
  warp.writePredicate(at.operands[0], ~warp.readPredicate(at.operands[1]), mask);
}

template <auto F> Instruction decodeLogic(InstructionBuilder &builder) {
  std::string type = builder.takeType();
  if (type == "pred") {
    builder.predicateOutput(builder.operand(0));
    builder.predicateInput(builder.operand(1));
    builder.predicateInput(builder.operand(2));
    return builder.finish(predicateBinary<F>);
  }
  takeOperands(builder, type, 2);
  return builder.finish(DTC_CHOOSE_BITS(type, binary, F));
}

/// Amounts of the width and more shift everything out.
template <typename T, bool IsLeft> void shift(Warp &warp, const Instruction &at, uint32_t mask) {
  Lanes<T> value = warp.read<T>(at.operands[1]);
  Lanes<uint32_t> amount = warp.read<uint32_t>(at.operands[2]);
  constexpr uint32_t width = 8 * sizeof(T);
  Lanes<T> within =
      convert<T, uint32_t>(__builtin_elementwise_min(amount, Lanes<uint32_t>(width - 1)));
  uint32_t isOut = maskOf(amount >= width);
  Lanes<T> result;
  if constexpr (IsLeft)
    result = select<T>(isOut, Lanes<T>(T(0)), value << within);
  else if constexpr (std::is_signed_v<T>)
    result = value >> within;
  else
    result = select<T>(isOut, Lanes<T>(T(0)), value >> within);
  warp.write<T>(at.operands[0], result, mask);
}

template <bool IsLeft> Instruction decodeShift(InstructionBuilder &builder) {
  std::string type = builder.takeType();
  unsigned bytes = ptx::bytesOfType(type, builder.result().line);
  builder.output(builder.operand(0), bytes);
  builder.input(builder.operand(1), bytes);
  builder.input(builder.operand(2), 4);
  Handler bits = DTC_CHOOSE_BITS(type, shift, IsLeft);
  return builder.finish(bits || IsLeft ? bits : DTC_CHOOSE_INTEGER(type, shift, IsLeft));
}

/// Shifts the 64 bits of two registers; mode 1 clamps amounts to 32, mode 0 takes them modulo 32.
template <bool IsLeft> void funnelShift(Warp &warp, const Instruction &at, uint32_t mask) {
  using Wide = Lanes<uint64_t>;
  Wide low = convert<uint64_t, uint32_t>(warp.read<uint32_t>(at.operands[1]));
  Wide high = convert<uint64_t, uint32_t>(warp.read<uint32_t>(at.operands[2]));
  Lanes<uint32_t> amount = warp.read<uint32_t>(at.operands[3]);
  amount = at.mode ? __builtin_elementwise_min(amount, Lanes<uint32_t>(32)) : (amount & 31);
  Wide value = high << 32 | low, by = convert<uint64_t, uint32_t>(amount);
  Wide shifted = IsLeft ? (value << by) >> 32 : value >> by;
  warp.write<uint32_t>(at.operands[0], convert<uint32_t, uint64_t>(shifted), mask);
}

Instruction decodeFunnelShift(InstructionBuilder &builder) {
  bool isLeft = builder.take("l");
  if (!isLeft && !builder.take("r"))
    builder.refuse("it lacks .l or .r");
  builder.result().mode = builder.takeOneOf({"clamp", "wrap"}) == "clamp";
  takeOperands(builder, builder.takeType(), 3);
  return builder.finish(isLeft ? funnelShift<true> : funnelShift<false>);
}

/// The immediate is the table: bit i says the result for the i-th combination of a, b and c.
void anyLogic(Warp &warp, const Instruction &at, uint32_t mask) {
  using V = Lanes<uint32_t>;
  V a = warp.read<uint32_t>(at.operands[1]), b = warp.read<uint32_t>(at.operands[2]),
    c = warp.read<uint32_t>(at.operands[3]), result = V(0);
  for (unsigned row = 0; row < 8; ++row)
    if (at.immediate >> row & 1)
      result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
  warp.write<uint32_t>(at.operands[0], result, mask);
}

Instruction decodeAnyLogic(InstructionBuilder &builder) {
  if (builder.takeType() != "b32" || builder.operandCount() != 5)
    builder.refuse("only lop3.b32 with four operands is known");
  builder.output(builder.operand(0), 4);
  for (unsigned i = 1; i <= 3; ++i)
    builder.input(builder.operand(i), 4);
  builder.result().immediate = static_cast<int64_t>(builder.operand(4).bits);
  return builder.finish(anyLogic);
}

template <typename T, auto F> void count(Warp &warp, const Instruction &at, uint32_t mask) {
  warp.write<uint32_t>(at.operands[0], mapLanes<uint32_t>(warp.read<T>(at.operands[1]), F), mask);
}

constexpr auto kPopulation = [](auto v) -> uint32_t { return std::popcount(v); };
constexpr auto kLeadingZeroes = [](auto v) -> uint32_t { return std::countl_zero(v); };
constexpr auto kHighest = [](auto v) -> uint32_t {
  using T = decltype(v);
  auto bits = static_cast<std::make_unsigned_t<T>>(v < 0 ? ~v : v);
  return bits == 0 ? ~0u : 8 * sizeof(T) - 1 - std::countl_zero(bits);
};
constexpr auto kHighestShift = [](auto v) -> uint32_t {
  uint32_t highest = kHighest(v);
  return highest == ~0u ? highest : 8 * sizeof(v) - 1 - highest;
};

void takeCount(InstructionBuilder &builder, const std::string &type) {
  builder.output(builder.operand(0), 4);
  builder.input(builder.operand(1), ptx::bytesOfType(type, builder.result().line));
}

template <auto F> Instruction decodeCount(InstructionBuilder &builder) {
  std::string type = builder.takeType();
  takeCount(builder, type);
  return builder.finish(DTC_CHOOSE_BITS(type, count, F));
}

Instruction decodeHighest(InstructionBuilder &builder) {
  std::string type = builder.takeType();
  takeCount(builder, type);
  if (builder.take("shiftamt"))
    return builder.finish(DTC_CHOOSE_INTEGER(type, count, kHighestShift));
  return builder.finish(DTC_CHOOSE_INTEGER(type, count, kHighest));
}

template <typename T> T reverseBits(T value) {
  T result = 0;
  for (unsigned bit = 0; bit < 8 * sizeof(T); ++bit)
    result = static_cast<T>(result << 1 | (value >> bit & 1));
  return result;
}

constexpr auto kReverse = []<typename V>(V value) -> V {
  return mapLanes<ElementOf<V>>(value, [](auto v) { return reverseBits(v); });
};

template <typename T> T extractBits(T value, uint32_t position, uint32_t length) {
  using Bits = std::make_unsigned_t<T>;
  constexpr uint32_t width = 8 * sizeof(T);
  position &= 0xff;
  length &= 0xff;
  if (length == 0)
    return 0;
  uint32_t last = std::min(position + length - 1, width - 1);
  bool sign = std::is_signed_v<T> && (static_cast<Bits>(value) >> last & 1);
  Bits field = position >= width ? 0 : static_cast<Bits>(value) >> position;
  uint32_t kept = position >= width ? 0 : std::min(length, width - position);
  Bits low = kept >= width ? ~Bits(0) : (Bits(1) << kept) - 1;
  return static_cast<T>(sign ? field | ~low : field & low);
}

template <typename T, bool> void extract(Warp &warp, const Instruction &at, uint32_t mask) {
  Lanes<T> value = warp.read<T>(at.operands[1]);
  Lanes<uint32_t> position = warp.read<uint32_t>(at.operands[2]),
                  length = warp.read<uint32_t>(at.operands[3]);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    value[lane] = extractBits<T>(value[lane], position[lane], length[lane]);
  warp.write<T>(at.operands[0], value, mask);
}

template <typename T, bool> void insert(Warp &warp, const Instruction &at, uint32_t mask) {
  constexpr uint32_t width = 8 * sizeof(T);
  Lanes<T> field = warp.read<T>(at.operands[1]), target = warp.read<T>(at.operands[2]);
  Lanes<uint32_t> position = warp.read<uint32_t>(at.operands[3]),
                  length = warp.read<uint32_t>(at.operands[4]);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    uint32_t first = position[lane] & 0xff, bits = length[lane] & 0xff;
    if (first >= width)
      continue;
    T low = bits >= width ? ~T(0) : (T(1) << bits) - 1;
    target[lane] = (target[lane] & ~static_cast<T>(low << first)) |
                   static_cast<T>((field[lane] & low) << first);
  }
  warp.write<T>(at.operands[0], target, mask);
}

Instruction decodeExtract(InstructionBuilder &builder) {
  std::string type = builder.takeType();
  unsigned bytes = ptx::bytesOfType(type, builder.result().line);
  builder.output(builder.operand(0), bytes);
  builder.input(builder.operand(1), bytes);
  builder.input(builder.operand(2), 4);
  builder.input(builder.operand(3), 4);
  return builder.finish(DTC_CHOOSE_INTEGER(type, extract, true));
}

Instruction decodeInsert(InstructionBuilder &builder) {
  std::string type = builder.takeType();
  unsigned bytes = ptx::bytesOfType(type, builder.result().line);
  builder.output(builder.operand(0), bytes);
  builder.input(builder.operand(1), bytes);
  builder.input(builder.operand(2), bytes);
  builder.input(builder.operand(3), 4);
  builder.input(builder.operand(4), 4);
  return builder.finish(DTC_CHOOSE_BITS(type, insert, true));
}

/// Each nibble of the selector takes a byte of the eight in b:a, or its sign eight times.
void permute(Warp &warp, const Instruction &at, uint32_t mask) {
  Lanes<uint32_t> a = warp.read<uint32_t>(at.operands[1]), b = warp.read<uint32_t>(at.operands[2]),
                  selector = warp.read<uint32_t>(at.operands[3]), result;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    uint64_t bytes = uint64_t(b[lane]) << 32 | a[lane];
    uint32_t value = 0;
    for (unsigned i = 0; i < 4; ++i) {
      uint32_t nibble = selector[lane] >> 4 * i & 15;
      auto byte = static_cast<uint8_t>(bytes >> 8 * (nibble & 7));
      if (nibble & 8)
        byte = byte & 0x80 ? 0xff : 0;
      value |= uint32_t(byte) << 8 * i;
    }
    result[lane] = value;
  }
  warp.write<uint32_t>(at.operands[0], result, mask);
}

Instruction decodePermute(InstructionBuilder &builder) {
  takeOperands(builder, builder.takeType(), 3);
  return builder.finish(permute);
}

} // namespace

void addBitInstructions(DecodeTable &table) {
  table["and"] = decodeLogic<kAnd>;
  table["or"] = decodeLogic<kOr>;
  table["xor"] = decodeLogic<kXor>;
  table["not"] = [](InstructionBuilder &builder) {
    std::string type = builder.takeType();
    if (type == "pred") {
      builder.predicateOutput(builder.operand(0));
      builder.predicateInput(builder.operand(1));
      return builder.finish(predicateNot);
    }
    takeOperands(builder, type, 1);
    return builder.finish(DTC_CHOOSE_BITS(type, unary, kNot));
  };
  table["cnot"] = [](InstructionBuilder &builder) {
    std::string type = builder.takeType();
    takeOperands(builder, type, 1);
    return builder.finish(DTC_CHOOSE_BITS(type, unary, kLogicalNot));
  };
  table["shl"] = decodeShift<true>;
  table["shr"] = decodeShift<false>;
  table["shf"] = decodeFunnelShift;
  table["lop3"] = decodeAnyLogic;
  table["popc"] = decodeCount<kPopulation>;
  table["clz"] = decodeCount<kLeadingZeroes>;
  table["bfind"] = decodeHighest;
  table["brev"] = [](InstructionBuilder &builder) {
    std::string type = builder.takeType();
    takeOperands(builder, type, 1);
    return builder.finish(DTC_CHOOSE_BITS(type, unary, kReverse));
  };
  table["bfe"] = decodeExtract;
  table["bfi"] = decodeInsert;
  table["prmt"] = decodePermute;
}

} // namespace dtc::emulator
