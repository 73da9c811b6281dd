// ld and st: the memory accesses of a warp's lanes, with bounds, alignment, and what they touch.
#include "Emulator/Device/DeviceMemory.h"
#include "Emulator/Device/Fault.h"
#include "Emulator/Interpreter/Block.h"
#include "Emulator/Interpreter/Instructions.h"
#include "dtc-cuda/Driver.h"

namespace dtc::emulator {

namespace {

/// The bytes of each lane, one lane after another, at most 16 a lane.
struct LaneBytes {
  alignas(64) std::byte bytes[kLanes * 16];
};

void requireAligned(Warp &warp, const Instruction &at, uint32_t mask,
                    const Lanes<uint64_t> &addresses, unsigned bytes) {
  uint32_t isMisaligned = maskOf((addresses & uint64_t(bytes - 1)) != 0) & mask;
  if (!isMisaligned)
    return;
  unsigned lane = std::countr_zero(isMisaligned);
  warp.fail(cuda::CUDA_ERROR_MISALIGNED_ADDRESS, at, lane, "misaligned: address ",
            hex(addresses[lane]), " of an access of ", bytes, " bytes");
}

bool isContiguous(uint32_t mask, const Lanes<uint64_t> &addresses, unsigned bytes) {
  if (mask != kAllLanes)
    return false;
  Lanes<uint64_t> steps;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    steps[lane] = uint64_t(lane) * bytes;
  return maskOf(addresses - steps == addresses[0]) == kAllLanes;
}

template <typename... Part>
[[noreturn]] void outOfBounds(Warp &warp, const Instruction &at, unsigned lane, uint64_t address,
                              unsigned bytes, const Part &...where) {
  warp.fail(cuda::CUDA_ERROR_ILLEGAL_ADDRESS, at, lane, "out of bounds: ", bytes, " bytes at ",
            hex(address), where...);
}

/// Checks that every lane stays in a live allocation.
void requireInBounds(Warp &warp, const Instruction &at, uint32_t mask,
                     const Lanes<uint64_t> &addresses, unsigned bytes) {
  Range &cached = warp.block().cachedAllocation(at);
  auto outside = [&] {
    return maskOf((addresses < cached.begin) | (addresses + bytes > cached.end)) & mask;
  };
  uint32_t isOutside = outside();
  while (isOutside) {
    unsigned lane = std::countr_zero(isOutside);
    Range range = warp.block().memory().find(addresses[lane]);
    if (range.begin == range.end || addresses[lane] + bytes > range.end)
      outOfBounds(warp, at, lane, addresses[lane], bytes, ", which is ",
                  warp.block().memory().describe(addresses[lane]));
    cached = range;
    isOutside &= outside();
  }
}

/// Calls a function with the address and size of each run of lanes that follow each other.
template <typename Note>
void forRuns(uint32_t mask, const Lanes<uint64_t> &addresses, unsigned bytes, Note &&note) {
  uint64_t begin = 0, end = 0;
  forLanes(mask, [&](unsigned lane) {
    uint64_t address = addresses[lane];
    if (address >= begin && address + bytes <= end)
      return;
    if (address != end) {
      if (end > begin)
        note(begin, end - begin);
      begin = address;
    }
    end = address + bytes;
  });
  note(begin, end - begin);
}

template <bool IsRead> void move(std::byte *ofLane, std::byte *inMemory, size_t bytes) {
  IsRead ? std::memcpy(ofLane, inMemory, bytes) : std::memcpy(inMemory, ofLane, bytes);
}

/// Calls a function with each lane. A constant size lets its copies become single instructions.
template <typename Move> void forLanesOfSize(uint32_t mask, unsigned bytes, Move &&move) {
  auto with = [&](auto size) { forLanes(mask, [&](unsigned lane) { move(lane, size.value); }); };
  switch (bytes) {
  case 1:
    return with(std::integral_constant<size_t, 1>());
  case 2:
    return with(std::integral_constant<size_t, 2>());
  case 4:
    return with(std::integral_constant<size_t, 4>());
  case 8:
    return with(std::integral_constant<size_t, 8>());
  default:
    return with(std::integral_constant<size_t, 16>());
  }
}

template <bool IsRead>
void accessGlobal(Warp &warp, const Instruction &at, uint32_t mask,
                  const Lanes<uint64_t> &addresses, unsigned bytes, LaneBytes &data) {
  const DeviceMemory &memory = warp.block().memory();
  AccessRecorder &recorder = warp.block().recorder();
  auto note = [&](uint64_t begin, uint64_t size) {
    IsRead ? recorder.read(begin, size) : recorder.write(begin, size);
  };
  requireInBounds(warp, at, mask, addresses, bytes);
  if (isContiguous(mask, addresses, bytes)) {
    note(addresses[0], uint64_t(bytes) * kLanes);
    move<IsRead>(data.bytes, memory.hostAddress(addresses[0]), size_t(bytes) * kLanes);
    return;
  }
  forRuns(mask, addresses, bytes, note);
  forLanesOfSize(mask, bytes, [&](unsigned lane, size_t size) {
    move<IsRead>(data.bytes + lane * size, memory.hostAddress(addresses[lane]), size);
  });
}

/// Reads of all lanes come before anything that this instruction writes, so their order is free.
template <bool IsRead>
void accessShared(Warp &warp, const Instruction &at, uint32_t mask,
                  const Lanes<uint64_t> &addresses, unsigned bytes, LaneBytes &data) {
  SharedMemory &shared = warp.block().shared();
  forLanes(mask, [&](unsigned lane) {
    uint64_t address = addresses[lane];
    if (address + bytes > shared.size() || address + bytes < address)
      outOfBounds(warp, at, lane, address, bytes, " of the block's ", shared.size(),
                  " bytes of shared memory");
    uint32_t thread = warp.firstThread() + lane, offset = static_cast<uint32_t>(address);
    std::string complaint = IsRead ? shared.read(offset, bytes, thread, warp.epoch)
                                   : shared.write(offset, bytes, thread, warp.epoch);
    if (!complaint.empty())
      warp.fail(cuda::CUDA_ERROR_LAUNCH_FAILED, at, lane, complaint);
    move<IsRead>(data.bytes + lane * bytes, shared.data() + address, bytes);
  });
}

void readParameters(Warp &warp, const Instruction &at, uint32_t mask,
                    const Lanes<uint64_t> &addresses, unsigned bytes, LaneBytes &data) {
  const std::vector<std::byte> &parameters = warp.block().launch().parameters;
  forLanes(mask, [&](unsigned lane) {
    uint64_t address = addresses[lane];
    if (address + bytes > parameters.size() || address + bytes < address)
      outOfBounds(warp, at, lane, address, bytes, " of the parameters");
    std::memcpy(data.bytes + lane * bytes, parameters.data() + address, bytes);
  });
}

/// Moves `bytes` for each lane of a mask. Of two lanes that write at one address the higher one
/// stays, as it may on a device.
template <bool IsRead>
void access(Warp &warp, const Instruction &at, uint32_t mask, const Lanes<uint64_t> &addresses,
            unsigned bytes, LaneBytes &data) {
  requireAligned(warp, at, mask, addresses, bytes);
  if (at.space == Space::Global)
    accessGlobal<IsRead>(warp, at, mask, addresses, bytes, data);
  else if (at.space == Space::Shared)
    accessShared<IsRead>(warp, at, mask, addresses, bytes, data);
  else if (IsRead)
    readParameters(warp, at, mask, addresses, bytes, data);
  else
    warp.fail(cuda::CUDA_ERROR_ILLEGAL_ADDRESS, at, std::countr_zero(mask),
              "a parameter is written");
}

/// The address: its base in an operand, and its offset in the immediate.
Lanes<uint64_t> addressesOf(const Warp &warp, const Instruction &at, unsigned operand) {
  return warp.read<uint64_t>(at.operands[operand]) + static_cast<uint64_t>(at.immediate);
}

/// The value in memory has type M, each of the V registers type R. The address comes last.
template <typename M, typename R, unsigned V>
void load(Warp &warp, const Instruction &at, uint32_t mask) {
  LaneBytes data;
  access<true>(warp, at, mask, addressesOf(warp, at, V), sizeof(M) * V, data);
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

/// Likewise. The address comes first.
template <typename M, typename R, unsigned V>
void store(Warp &warp, const Instruction &at, uint32_t mask) {
  LaneBytes data;
  for (unsigned k = 0; k < V; ++k) {
    Lanes<M> value = convert<M, R>(warp.read<R>(at.operands[k + 1]));
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      M element = value[lane];
      std::memcpy(data.bytes + (lane * V + k) * sizeof(M), &element, sizeof(M));
    }
  }
  access<false>(warp, at, mask, addressesOf(warp, at, 0), sizeof(M) * V, data);
}

/// Each lane has the address of a row of eight halves, eight lanes those of a matrix. A lane gets
/// two halves of each matrix that lie side by side: of its row, or where it is turned of its
/// column.
template <bool IsTurned> void loadMatrices(Warp &warp, const Instruction &at, uint32_t mask) {
  if (mask != kAllLanes)
    warp.fail(cuda::CUDA_ERROR_LAUNCH_FAILED, at, std::countr_zero(mask),
              "divergent: not all lanes load the matrices");
  LaneBytes data;
  access<true>(warp, at, mask, addressesOf(warp, at, 4), 16, data);
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    Lanes<uint32_t> words;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      uint16_t halves[2];
      for (unsigned i = 0; i < 2; ++i) {
        const unsigned line = lane / 4, inner = lane % 4 * 2 + i;
        const unsigned row = IsTurned ? inner : line, column = IsTurned ? line : inner;
        std::memcpy(&halves[i], data.bytes + (matrix * 8 + row) * 16 + column * 2, 2);
      }
      words[lane] = halves[0] | uint32_t(halves[1]) << 16;
    }
    warp.write<uint32_t>(at.operands[matrix], words, mask);
  }
}

/// With an address of each space.
template <typename M, typename R, unsigned V>
void enterAccess(InstructionTable &table, const std::string &type) {
  std::string count = V == 1 ? "." : concat(".v", V, ".");
  std::vector<unsigned> loaded(V, sizeof(R)), stored = {kAddress};
  stored.insert(stored.end(), loaded.begin(), loaded.end());
  loaded.push_back(kAddress);
  for (auto [name, space] : {std::pair("global", Space::Global),
                             {"shared", Space::Shared},
                             {"param", Space::Parameter}}) {
    std::string rest = name + count + type;
    table.emplace("ld." + rest, InstructionRow{load<M, R, V>, V, loaded, space, sizeof(M) * V});
    table.emplace("st." + rest, InstructionRow{store<M, R, V>, 0, stored, space, sizeof(M) * V});
  }
}

template <typename M, typename R>
void enterCounts(InstructionTable &table, const std::string &type) {
  enterAccess<M, R, 1>(table, type);
  enterAccess<M, R, 2>(table, type);
  if constexpr (sizeof(M) <= 4)
    enterAccess<M, R, 4>(table, type);
}

/// Registers may be wider than what is in memory; s8 to s32 then extend the sign.
template <typename M> void enterWidths(InstructionTable &table, Names types) {
  for (const std::string &type : types) {
    if constexpr (sizeof(M) <= 2)
      enterCounts<M, int16_t>(table, type);
    if constexpr (sizeof(M) <= 4)
      enterCounts<M, int32_t>(table, type);
    enterCounts<M, int64_t>(table, type);
  }
}

} // namespace

void addMemoryInstructions(InstructionTable &table) {
  enterWidths<uint8_t>(table, {"b8", "u8"});
  enterWidths<int8_t>(table, {"s8"});
  enterWidths<uint16_t>(table, {"b16", "u16", "f16", "bf16"});
  enterWidths<int16_t>(table, {"s16"});
  enterWidths<uint32_t>(table, {"b32", "u32", "f32"});
  enterWidths<int32_t>(table, {"s32"});
  const std::string matrices = "ldmatrix.sync.aligned.m8n8.x4.";
  const std::vector<unsigned> operands = {4, 4, 4, 4, kAddress};
  table.emplace(matrices + "shared.b16",
                InstructionRow{loadMatrices<false>, 4, operands, Space::Shared, 16});
  table.emplace(matrices + "trans.shared.b16",
                InstructionRow{loadMatrices<true>, 4, operands, Space::Shared, 16});
  enterWidths<uint64_t>(table, {"b64", "u64", "s64", "f64"});
}

} // namespace dtc::emulator
