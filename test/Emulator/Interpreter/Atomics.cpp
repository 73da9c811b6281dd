// atom and red: lane after lane, as if in one order.
#include "Emulator/Interpreter/Elementwise.h"
#include "Emulator/Interpreter/FloatArithmetic.h"
#include "Emulator/Interpreter/Half.h"
#include "Emulator/Interpreter/LaneMemory.h"

namespace dtc::emulator {

namespace {

constexpr auto kAdd = []<typename T>(T old, T b, T) -> T {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<UnsignedLike<T>>(old) + static_cast<UnsignedLike<T>>(b));
  else
    return old + b;
};
constexpr auto kMinimum = []<typename T>(T old, T b, T) -> T { return b < old ? b : old; };
constexpr auto kMaximum = []<typename T>(T old, T b, T) -> T { return b > old ? b : old; };
constexpr auto kAnd = []<typename T>(T old, T b, T) -> T { return old & b; };
constexpr auto kOr = []<typename T>(T old, T b, T) -> T { return old | b; };
constexpr auto kXor = []<typename T>(T old, T b, T) -> T { return old ^ b; };
constexpr auto kExchange = []<typename T>(T, T b, T) -> T { return b; };
constexpr auto kCompareAndSwap = []<typename T>(T old, T b, T c) -> T {
  return old == b ? c : old;
};
constexpr auto kIncrement = []<typename T>(T old, T b, T) -> T { return old >= b ? 0 : old + 1; };
constexpr auto kDecrement = []<typename T>(T old, T b, T) -> T {
  return old == 0 || old > b ? b : old - 1;
};

/// `at.mode` is the space, and `at.width` the number of values: the operands behind the address.
template <typename T, auto F> void atomic(Warp &warp, const Instruction &at, uint32_t mask) {
  Lanes<uint64_t> addresses = laneAddresses(warp, at, 1);
  Lanes<T> b = warp.read<T>(at.operands[2]);
  Lanes<T> c = at.width > 1 ? warp.read<T>(at.operands[3]) : b, old = b;
  forLanes(mask, [&](unsigned lane) {
    std::byte *place =
        atomicPlace(warp, at, lane, static_cast<Space>(at.mode), addresses[lane], sizeof(T));
    T before;
    std::memcpy(&before, place, sizeof(T));
    T after = F(before, T(b[lane]), T(c[lane]));
    std::memcpy(place, &after, sizeof(T));
    old[lane] = before;
  });
  warp.write<T>(at.operands[0], old, mask);
}

/// Sums of one or two halves.
template <HalfKind Kind, typename T> T addHalves(T a, T b) {
  auto one = [](uint32_t x, uint32_t y) {
    Lanes<uint16_t> left(static_cast<uint16_t>(x)), right(static_cast<uint16_t>(y));
    return uint32_t(narrow<Kind>(widen<Kind>(left) + widen<Kind>(right))[0]);
  };
  uint32_t result = one(a, b);
  if constexpr (sizeof(T) == 4)
    result |= one(a >> 16, b >> 16) << 16;
  return static_cast<T>(result);
}

template <HalfKind Kind>
constexpr auto kAddHalves =
    []<typename T>(T old, T b, T) -> T { return addHalves<Kind, T>(old, b); };

Handler chooseAdd(const std::string &type) {
  if (type == "f32")
    return atomic<float, kAdd>;
  if (type == "f64")
    return atomic<double, kAdd>;
  if (type == "f16")
    return atomic<uint16_t, kAddHalves<HalfKind::F16>>;
  if (type == "bf16")
    return atomic<uint16_t, kAddHalves<HalfKind::BF16>>;
  if (type == "f16x2")
    return atomic<uint32_t, kAddHalves<HalfKind::F16>>;
  if (type == "bf16x2")
    return atomic<uint32_t, kAddHalves<HalfKind::BF16>>;
  return DTC_CHOOSE_INTEGER(type, atomic, kAdd);
}

Handler chooseAtomic(const std::string &name, const std::string &type) {
  if (name == "add")
    return chooseAdd(type);
  if (name == "min")
    return DTC_CHOOSE_INTEGER(type, atomic, kMinimum);
  if (name == "max")
    return DTC_CHOOSE_INTEGER(type, atomic, kMaximum);
  if (name == "and")
    return DTC_CHOOSE_BITS(type, atomic, kAnd);
  if (name == "or")
    return DTC_CHOOSE_BITS(type, atomic, kOr);
  if (name == "xor")
    return DTC_CHOOSE_BITS(type, atomic, kXor);
  if (name == "exch")
    return DTC_CHOOSE_BITS(type, atomic, kExchange);
  if (name == "cas")
    return DTC_CHOOSE_BITS(type, atomic, kCompareAndSwap);
  if (type != "u32")
    return nullptr;
  return name == "inc" ? atomic<uint32_t, kIncrement> : atomic<uint32_t, kDecrement>;
}

template <bool HasResult> Instruction decodeAtomic(InstructionBuilder &builder) {
  std::string type = builder.takeType();
  unsigned bytes = ptx::bytesOfType(type, builder.result().line);
  while (!builder
              .takeOneOf(
                  {"relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "sys", "noftz", "rn"})
              .empty()) {
  }
  Space space = takeSpace(builder);
  std::string name =
      builder.takeOneOf({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  if (name.empty())
    builder.refuse("it has no known operation");
  size_t next = HasResult ? 1 : 0;
  builder.output(HasResult ? builder.operand(0) : ptx::Operand{}, bytes);
  builder.address(builder.operand(next), nameOf(space));
  unsigned values = name == "cas" ? 2 : 1;
  for (unsigned i = 1; i <= values; ++i)
    builder.input(builder.operand(next + i), bytes);
  builder.result().mode = static_cast<uint8_t>(space);
  builder.result().width = static_cast<uint8_t>(values);
  if (space == Space::Shared || space == Space::Generic)
    builder.noteSharedAccess(bytes);
  return builder.finish(chooseAtomic(name, type));
}

} // namespace

void addAtomics(DecodeTable &table) {
  table["atom"] = decodeAtomic<true>;
  table["red"] = decodeAtomic<false>;
}

} // namespace dtc::emulator
