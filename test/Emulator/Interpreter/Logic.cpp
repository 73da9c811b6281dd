// Bits, comparisons, selections and moves.
#include "Emulator/Interpreter/Instructions.h"

namespace dtc::emulator {

namespace {

constexpr auto kAnd = []<typename V>(V a, V b) -> V { return a & b; };
constexpr auto kOr = []<typename V>(V a, V b) -> V { return a | b; };
constexpr auto kXor = []<typename V>(V a, V b) -> V { return a ^ b; };
constexpr auto kNot = []<typename V>(V a) -> V { return ~a; };
constexpr auto kSame = []<typename V>(V a) -> V { return a; };

/// Amounts of the width and more shift everything out.
template <bool IsLeft>
constexpr auto kShift = []<typename V>(V value, Lanes<uint32_t> amount) -> V {
  using T = ElementOf<V>;
  constexpr uint32_t width = 8 * sizeof(T);
  V within = convert<T, uint32_t>(__builtin_elementwise_min(amount, Lanes<uint32_t>(width - 1)));
  if constexpr (std::is_signed_v<T>)
    return value >> within;
  else
    return select<T>(maskOf(amount >= width), V(T(0)), IsLeft ? value << within : value >> within);
};

/// Shifts the 64 bits of two registers by an amount modulo 32.
template <bool IsLeft>
constexpr auto kFunnelShift = [](Lanes<uint32_t> a, Lanes<uint32_t> b, Lanes<uint32_t> amount) {
  auto wide = [](Lanes<uint32_t> value) { return convert<uint64_t, uint32_t>(value); };
  Lanes<uint64_t> value = wide(b) << 32 | wide(a), by = wide(amount & 31);
  return convert<uint32_t, uint64_t>(IsLeft ? (value << by) >> 32 : value >> by);
};

constexpr auto kPopulation = [](auto a) {
  return mapLanes<uint32_t>(a, [](auto v) { return std::popcount(v); });
};
constexpr auto kLeadingZeroes = [](auto a) {
  return mapLanes<uint32_t>(a, [](auto v) { return std::countl_zero(v); });
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
template <typename T> using Extracted = T(T, uint32_t, uint32_t);
constexpr auto kExtract = []<typename V>(V a, Lanes<uint32_t> position, Lanes<uint32_t> length) {
  for (unsigned lane = 0; lane < kLanes; ++lane)
    a[lane] = extractBits<ElementOf<V>>(a[lane], position[lane], length[lane]);
  return a;
};

/// Each nibble of the selector takes a byte of the eight in b:a, or its sign eight times.
uint32_t permuteBytes(uint64_t bytes, uint32_t selector) {
  uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i) {
    uint32_t nibble = selector >> 4 * i & 15;
    auto byte = static_cast<uint8_t>(bytes >> 8 * (nibble & 7));
    if (nibble & 8)
      byte = byte & 0x80 ? 0xff : 0;
    value |= uint32_t(byte) << 8 * i;
  }
  return value;
}
constexpr auto kPermute = [](Lanes<uint32_t> a, Lanes<uint32_t> b, Lanes<uint32_t> selector) {
  for (unsigned lane = 0; lane < kLanes; ++lane)
    a[lane] = permuteBytes(uint64_t(b[lane]) << 32 | a[lane], selector[lane]);
  return a;
};

void addBits(InstructionTable &table) {
  enter<kAnd, Binary>(table, {"and.b"}, Words());
  enter<kOr, Binary>(table, {"or.b"}, Words());
  enter<kXor, Binary>(table, {"xor.b"}, Words());
  enter<kNot, Unary>(table, {"not.b"}, Words());
  enterOne<kAnd, bool(bool, bool)>(table, "and.pred");
  enterOne<kOr, bool(bool, bool)>(table, "or.pred");
  enterOne<kXor, bool(bool, bool)>(table, "xor.pred");
  enterOne<kNot, bool(bool)>(table, "not.pred");
  enter<kShift<true>, Shifted>(table, {"shl.b"}, Words());
  enter<kShift<false>, Shifted>(table, {"shr.u", "shr.b"}, Words());
  enter<kShift<false>, Shifted>(table, {"shr.s"}, Signed());
  enter<kFunnelShift<true>, Ternary>(table, {"shf.l.wrap.b"}, Types<uint32_t>());
  enter<kFunnelShift<false>, Ternary>(table, {"shf.r.wrap.b"}, Types<uint32_t>());
  enter<kPopulation, Counted>(table, {"popc.b"}, Types<uint32_t, uint64_t>());
  enter<kLeadingZeroes, Counted>(table, {"clz.b"}, Types<uint32_t, uint64_t>());
  enter<kExtract, Extracted>(table, {"bfe.u"}, Types<uint32_t, uint64_t>());
  enter<kExtract, Extracted>(table, {"bfe.s"}, Types<int32_t, int64_t>());
  enter<kPermute, Ternary>(table, {"prmt.b"}, Types<uint32_t>());
}

constexpr auto kEqual = [](auto a, auto b) { return maskOf(a == b); };
constexpr auto kNotEqual = [](auto a, auto b) { return maskOf(a != b); };
constexpr auto kLess = [](auto a, auto b) { return maskOf(a < b); };
constexpr auto kLessEqual = [](auto a, auto b) { return maskOf(a <= b); };
constexpr auto kGreater = [](auto a, auto b) { return maskOf(a > b); };
constexpr auto kGreaterEqual = [](auto a, auto b) { return maskOf(a >= b); };
constexpr auto kIsNan = [](auto a, auto b) { return maskOf((a != a) | (b != b)); };
constexpr auto kIsNumber = [](auto a, auto b) { return ~kIsNan(a, b); };
/// A comparison of floats, false or true where one is NaN.
template <auto F> constexpr auto kOrdered = [](auto a, auto b) { return F(a, b) & ~kIsNan(a, b); };
template <auto F> constexpr auto kUnordered = [](auto a, auto b) { return F(a, b) | kIsNan(a, b); };

template <auto F> void addComparison(InstructionTable &table, const std::string &name) {
  enter<F, Compared>(table, {"setp." + name + ".s"}, Signed());
  enter<F, Compared>(table, {"setp." + name + ".u"}, Words());
  enter<kOrdered<F>, Compared>(table, {"setp." + name + ".f"}, Floats());
  enter<kUnordered<F>, Compared>(table, {"setp." + name + "u.f"}, Floats());
}

void addComparisons(InstructionTable &table) {
  addComparison<kEqual>(table, "eq");
  addComparison<kNotEqual>(table, "ne");
  addComparison<kLess>(table, "lt");
  addComparison<kLessEqual>(table, "le");
  addComparison<kGreater>(table, "gt");
  addComparison<kGreaterEqual>(table, "ge");
  enter<kEqual, Compared>(table, {"setp.eq.b"}, Words());
  enter<kNotEqual, Compared>(table, {"setp.ne.b"}, Words());
  enter<kIsNan, Compared>(table, {"setp.nan.f"}, Floats());
  enter<kIsNumber, Compared>(table, {"setp.num.f"}, Floats());
}

constexpr auto kSelect = []<typename V>(V yes, V no, uint32_t condition) -> V {
  return select<ElementOf<V>>(condition, yes, no);
};

/// Joins parts to one register, the lowest first.
template <typename Whole>
constexpr auto kJoin = [](auto... parts) {
  Lanes<Whole> result(Whole(0));
  unsigned shift = 0;
  auto join = [&]<typename V>(V part) {
    result |= convert<Whole, ElementOf<V>>(part) << shift;
    shift += 8 * sizeof(ElementOf<V>);
  };
  (join(parts), ...);
  return result;
};

/// Splits the last operand into those before it.
template <typename Part, typename Whole>
void split(Warp &warp, const Instruction &at, uint32_t mask) {
  constexpr unsigned count = sizeof(Whole) / sizeof(Part);
  Lanes<Whole> value = warp.read<Whole>(at.operands[count]);
  for (unsigned i = 0; i < count; ++i)
    warp.write<Part>(at.operands[i], convert<Part, Whole>(value >> 8 * sizeof(Part) * i), mask);
}

void addMoves(InstructionTable &table) {
  enter<kSame, Unary>(table, {"mov.b", "mov.u", "mov.s", "mov.f"}, Words());
  enterOne<kSame, bool(bool)>(table, "mov.pred");
  enterOne<kSame, uint64_t(uint64_t)>(table, "cvta.to.global.u64");
  enter<kSelect, Selected>(table, {"selp.b", "selp.u", "selp.s", "selp.f"}, Words());
  enterOne<kJoin<uint32_t>, uint32_t(uint16_t, uint16_t)>(table, "mov.b32");
  enterOne<kJoin<uint64_t>, uint64_t(uint32_t, uint32_t)>(table, "mov.b64");
  enterOne<kJoin<uint64_t>, uint64_t(uint16_t, uint16_t, uint16_t, uint16_t)>(table, "mov.b64");
  table.emplace("mov.b32", InstructionRow{split<uint16_t, uint32_t>, 2, {2, 2, 4}});
  table.emplace("mov.b64", InstructionRow{split<uint32_t, uint64_t>, 2, {4, 4, 8}});
  table.emplace("mov.b64", InstructionRow{split<uint16_t, uint64_t>, 4, {2, 2, 2, 2, 8}});
}

} // namespace

void addLogic(InstructionTable &table) {
  addBits(table);
  addComparisons(table);
  addMoves(table);
}

} // namespace dtc::emulator
