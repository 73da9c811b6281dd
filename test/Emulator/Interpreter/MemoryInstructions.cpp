// ld, st, prefetch and cp.async.
#include "Emulator/Interpreter/Elementwise.h"
#include "Emulator/Interpreter/LaneMemory.h"

namespace dtc::emulator {

namespace {

/// `at.mode` is the space. The value in memory has type M, each of the V registers type R.
template <typename M, typename R, unsigned V>
void load(Warp &warp, const Instruction &at, uint32_t mask) {
  LaneBytes data;
  Lanes<uint64_t> addresses = laneAddresses(warp, at, V);
  readLanes(warp, at, mask, static_cast<Space>(at.mode), addresses, sizeof(M) * V, data);
  for (unsigned k = 0; k < V; ++k) {
    Lanes<M> value;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      M element;
      std::memcpy(&element, data.bytes + (lane * V + k) * sizeof(M), sizeof(M));
      value[lane] = element;
    }
    warp.write<R>(at.operands[k], convert<R, M>(value), mask);
  }
}

template <typename M, typename R, unsigned V>
void store(Warp &warp, const Instruction &at, uint32_t mask) {
  LaneBytes data;
  for (unsigned k = 0; k < V; ++k) {
    Lanes<M> value = convert<M, R>(warp.read<R>(at.operands[1 + k]));
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      M element = value[lane];
      std::memcpy(data.bytes + (lane * V + k) * sizeof(M), &element, sizeof(M));
    }
  }
  Lanes<uint64_t> addresses = laneAddresses(warp, at, 0);
  writeLanes(warp, at, mask, static_cast<Space>(at.mode), addresses, sizeof(M) * V, data);
}

template <typename M, typename R> Handler chooseCount(bool isLoad, unsigned count) {
  if (count == 1)
    return isLoad ? load<M, R, 1> : store<M, R, 1>;
  if constexpr (sizeof(M) <= 8)
    if (count == 2)
      return isLoad ? load<M, R, 2> : store<M, R, 2>;
  if constexpr (sizeof(M) <= 4)
    if (count == 4)
      return isLoad ? load<M, R, 4> : store<M, R, 4>;
  return nullptr;
}

/// Registers may be wider than what is in memory; s8 to s32 then extend the sign.
template <typename M> Handler chooseRegister(bool isLoad, unsigned width, unsigned count) {
  using U = UnsignedLike<M>;
  using Extended2 = std::conditional_t<std::is_signed_v<M>, int16_t, uint16_t>;
  using Extended4 = std::conditional_t<std::is_signed_v<M>, int32_t, uint32_t>;
  using Extended8 = std::conditional_t<std::is_signed_v<M>, int64_t, uint64_t>;
  if (width == sizeof(M))
    return chooseCount<U, U>(isLoad, count);
  if (width == 2)
    return chooseCount<M, Extended2>(isLoad, count);
  if (width == 4)
    return chooseCount<M, Extended4>(isLoad, count);
  return width == 8 ? chooseCount<M, Extended8>(isLoad, count) : nullptr;
}

Handler chooseMemory(const std::string &type, unsigned bytes, bool isLoad, unsigned width,
                     unsigned count) {
  bool isSigned = type[0] == 's';
  switch (bytes) {
  case 1:
    return isSigned ? chooseRegister<int8_t>(isLoad, width, count)
                    : chooseRegister<uint8_t>(isLoad, width, count);
  case 2:
    return isSigned ? chooseRegister<int16_t>(isLoad, width, count)
                    : chooseRegister<uint16_t>(isLoad, width, count);
  case 4:
    return isSigned ? chooseRegister<int32_t>(isLoad, width, count)
                    : chooseRegister<uint32_t>(isLoad, width, count);
  case 8:
    return width == 8 ? chooseRegister<uint64_t>(isLoad, width, count) : nullptr;
  default:
    return nullptr;
  }
}

/// Modifiers that say nothing about the value: order among threads, caches and prefetches.
void takeHints(InstructionBuilder &builder) {
  while (!builder
              .takeOneOf({"weak",
                          "volatile",
                          "relaxed",
                          "acquire",
                          "release",
                          "cta",
                          "gpu",
                          "sys",
                          "nc",
                          "ca",
                          "cg",
                          "cs",
                          "lu",
                          "cv",
                          "wb",
                          "wt",
                          "L1::evict_normal",
                          "L1::evict_unchanged",
                          "L1::evict_first",
                          "L1::evict_last",
                          "L1::no_allocate",
                          "L2::64B",
                          "L2::128B",
                          "L2::256B"})
              .empty()) {
  }
}

template <bool IsLoad> Instruction decodeAccess(InstructionBuilder &builder) {
  std::string type = builder.takeType();
  unsigned bytes = ptx::bytesOfType(type, builder.result().line);
  takeHints(builder);
  Space space = takeSpace(builder);
  std::string vector = builder.takeOneOf({"v2", "v4"});
  unsigned count = vector == "v2" ? 2 : vector == "v4" ? 4 : 1;
  const ptx::Operand &values = builder.operand(IsLoad ? 0 : 1);
  if (!IsLoad)
    builder.address(builder.operand(0), nameOf(space));
  std::vector<ptx::Operand> elements = count == 1 ? std::vector{values} : values.elements;
  if (elements.size() != count)
    builder.refuse("the vector has " + std::to_string(elements.size()) + " elements");
  unsigned width = 0;
  for (const ptx::Operand &element : elements) {
    bool isRegister = element.kind == ptx::Operand::Kind::Register;
    unsigned expected = width ? width : isRegister ? 0 : std::max(bytes, 2u);
    width = IsLoad ? builder.output(element, expected) : builder.input(element, expected);
  }
  if (IsLoad)
    builder.address(builder.operand(1), nameOf(space));
  if (space == Space::Shared || space == Space::Generic)
    builder.noteSharedAccess(bytes * count);
  builder.result().mode = static_cast<uint8_t>(space);
  return builder.finish(width < bytes ? nullptr : chooseMemory(type, bytes, IsLoad, width, count));
}

void prefetch(Warp &, const Instruction &, uint32_t) {}

Instruction decodePrefetch(InstructionBuilder &builder) {
  builder.takeOneOf({"L1", "L2", "L2::evict_last", "L2::evict_normal"});
  Space space = takeSpace(builder);
  builder.address(builder.operand(0), nameOf(space));
  return builder.finish(prefetch);
}

} // namespace

void addMemoryInstructions(DecodeTable &table) {
  table["ld"] = table["ldu"] = decodeAccess<true>;
  table["st"] = decodeAccess<false>;
  table["prefetch"] = decodePrefetch;
}

} // namespace dtc::emulator
