#include "Emulator/Interpreter/LaneMemory.h"

#include "Emulator/Device/DeviceMemory.h"
#include "Emulator/Device/Fault.h"
#include "dtc-cuda/Driver.h"

namespace dtc::emulator {

namespace {

void requireAligned(Warp &warp, const Instruction &at, uint32_t mask,
                    const Lanes<uint64_t> &addresses, unsigned bytes) {
  uint32_t isMisaligned = maskOf((addresses & uint64_t(bytes - 1)) != 0) & mask;
  if (!isMisaligned)
    return;
  unsigned lane = std::countr_zero(isMisaligned);
  warp.fail(cuda::CUDA_ERROR_MISALIGNED_ADDRESS, at, lane,
            "misaligned: address " + hex(addresses[lane]) + " of an access of " +
                std::to_string(bytes) + " bytes");
}

bool isContiguous(uint32_t mask, const Lanes<uint64_t> &addresses, unsigned bytes) {
  if (mask != kAllLanes)
    return false;
  Lanes<uint64_t> steps;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    steps[lane] = uint64_t(lane) * bytes;
  return maskOf(addresses - steps == addresses[0]) == kAllLanes;
}

[[noreturn]] void outOfBounds(Warp &warp, const Instruction &at, unsigned lane, uint64_t address,
                              unsigned bytes) {
  warp.fail(cuda::CUDA_ERROR_ILLEGAL_ADDRESS, at, lane,
            "out of bounds: " + std::to_string(bytes) + " bytes at " + hex(address) +
                ", which is " + warp.block().memory().describe(address));
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
      outOfBounds(warp, at, lane, addresses[lane], bytes);
    cached = range;
    isOutside &= outside();
  }
}

/// Calls a function with the host's address and size of each run of lanes that follow each other.
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

template <typename Move>
void moveLanes(uint32_t mask, const Lanes<uint64_t> &addresses, unsigned bytes, Move &&move) {
  // A constant size lets the copies of each lane become single instructions.
  auto with = [&](auto size) {
    forLanes(mask, [&](unsigned lane) { move(lane, addresses[lane], size.value); });
  };
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

void readGlobal(Warp &warp, const Instruction &at, uint32_t mask, const Lanes<uint64_t> &addresses,
                unsigned bytes, LaneBytes &data) {
  const DeviceMemory &memory = warp.block().memory();
  requireInBounds(warp, at, mask, addresses, bytes);
  if (isContiguous(mask, addresses, bytes)) {
    warp.block().recorder().read(addresses[0], uint64_t(bytes) * kLanes);
    std::memcpy(data.bytes, memory.hostAddress(addresses[0]), size_t(bytes) * kLanes);
    return;
  }
  forRuns(mask, addresses, bytes,
          [&](uint64_t begin, uint64_t size) { warp.block().recorder().read(begin, size); });
  moveLanes(mask, addresses, bytes, [&](unsigned lane, uint64_t address, size_t size) {
    std::memcpy(data.bytes + lane * size, memory.hostAddress(address), size);
  });
}

void writeGlobal(Warp &warp, const Instruction &at, uint32_t mask, const Lanes<uint64_t> &addresses,
                 unsigned bytes, const LaneBytes &data) {
  const DeviceMemory &memory = warp.block().memory();
  requireInBounds(warp, at, mask, addresses, bytes);
  if (isContiguous(mask, addresses, bytes)) {
    warp.block().recorder().write(addresses[0], uint64_t(bytes) * kLanes);
    std::memcpy(memory.hostAddress(addresses[0]), data.bytes, size_t(bytes) * kLanes);
    return;
  }
  forRuns(mask, addresses, bytes,
          [&](uint64_t begin, uint64_t size) { warp.block().recorder().write(begin, size); });
  moveLanes(mask, addresses, bytes, [&](unsigned lane, uint64_t address, size_t size) {
    std::memcpy(memory.hostAddress(address), data.bytes + lane * size, size);
  });
}

std::byte *sharedPlace(Warp &warp, const Instruction &at, unsigned lane, uint64_t address,
                       unsigned bytes) {
  SharedMemory &shared = warp.block().shared();
  if (address + bytes > shared.size() || address + bytes < address)
    warp.fail(cuda::CUDA_ERROR_ILLEGAL_ADDRESS, at, lane,
              "out of bounds: " + std::to_string(bytes) + " bytes at " + hex(address) +
                  " of the block's " + std::to_string(shared.size()) + " bytes of shared memory");
  return shared.data() + address;
}

void requireNoRace(Warp &warp, const Instruction &at, unsigned lane, const std::string &complaint) {
  if (!complaint.empty())
    warp.fail(cuda::CUDA_ERROR_LAUNCH_FAILED, at, lane, complaint);
}

/// Reads of all lanes come before anything that this instruction writes, so their order is free.
void readShared(Warp &warp, const Instruction &at, uint32_t mask, const Lanes<uint64_t> &addresses,
                unsigned bytes, LaneBytes &data) {
  forLanes(mask, [&](unsigned lane) {
    auto address = static_cast<uint32_t>(addresses[lane]);
    std::memcpy(data.bytes + lane * bytes, sharedPlace(warp, at, lane, addresses[lane], bytes),
                bytes);
    requireNoRace(
        warp, at, lane,
        warp.block().shared().read(address, bytes, warp.firstThread() + lane, warp.epoch, false));
  });
}

void writeShared(Warp &warp, const Instruction &at, uint32_t mask, const Lanes<uint64_t> &addresses,
                 unsigned bytes, const LaneBytes &data) {
  forLanes(mask, [&](unsigned lane) {
    auto address = static_cast<uint32_t>(addresses[lane]);
    std::byte *place = sharedPlace(warp, at, lane, addresses[lane], bytes);
    requireNoRace(
        warp, at, lane,
        warp.block().shared().write(address, bytes, warp.firstThread() + lane, warp.epoch, false));
    std::memcpy(place, data.bytes + lane * bytes, bytes);
  });
}

std::byte *localPlace(Warp &warp, const Instruction &at, unsigned lane, uint64_t address,
                      unsigned bytes) {
  uint32_t size = warp.block().launch().program->localBytes;
  if (address + bytes > size || address + bytes < address)
    warp.fail(cuda::CUDA_ERROR_ILLEGAL_ADDRESS, at, lane,
              "out of bounds: " + std::to_string(bytes) + " bytes at " + hex(address) +
                  " of the thread's " + std::to_string(size) + " bytes of local memory");
  return warp.block().local(warp.firstThread() + lane) + address;
}

const std::byte *parameterPlace(Warp &warp, const Instruction &at, unsigned lane, uint64_t address,
                                unsigned bytes) {
  const std::vector<std::byte> &parameters = warp.block().launch().parameters;
  if (address + bytes > parameters.size() || address + bytes < address)
    warp.fail(cuda::CUDA_ERROR_ILLEGAL_ADDRESS, at, lane, "out of bounds of the parameters");
  return parameters.data() + address;
}

Space spaceOfWindow(uint64_t address) {
  switch (address & kWindowMask) {
  case kSharedWindow:
    return Space::Shared;
  case kLocalWindow:
    return Space::Local;
  case kParameterWindow:
    return Space::Parameter;
  default:
    return Space::Global;
  }
}

/// Splits a generic access by the windows that its addresses lie in.
template <typename Access>
void forSpaces(uint32_t mask, const Lanes<uint64_t> &addresses, Access &&access) {
  while (mask) {
    uint64_t window = addresses[std::countr_zero(mask)] & kWindowMask;
    uint32_t same = maskOf((addresses & kWindowMask) == window) & mask;
    Space space = spaceOfWindow(window);
    access(same, space, space == Space::Global ? addresses : addresses & ~kWindowMask);
    mask &= ~same;
  }
}

} // namespace

Lanes<uint64_t> laneAddresses(const Warp &warp, const Instruction &at, unsigned operand) {
  Lanes<uint64_t> base =
      at.flags & kAddressIs32
          ? convert<uint64_t, uint32_t>(warp.read<uint32_t>(at.operands[operand]))
          : warp.read<uint64_t>(at.operands[operand]);
  return base + static_cast<uint64_t>(at.immediate);
}

void readLanes(Warp &warp, const Instruction &at, uint32_t mask, Space space,
               const Lanes<uint64_t> &addresses, unsigned bytes, LaneBytes &data) {
  requireAligned(warp, at, mask, addresses, bytes);
  switch (space) {
  case Space::Global:
    return readGlobal(warp, at, mask, addresses, bytes, data);
  case Space::Shared:
    return readShared(warp, at, mask, addresses, bytes, data);
  case Space::Local:
    return forLanes(mask, [&](unsigned lane) {
      std::memcpy(data.bytes + lane * bytes, localPlace(warp, at, lane, addresses[lane], bytes),
                  bytes);
    });
  case Space::Parameter:
    return forLanes(mask, [&](unsigned lane) {
      std::memcpy(data.bytes + lane * bytes, parameterPlace(warp, at, lane, addresses[lane], bytes),
                  bytes);
    });
  case Space::Generic:
    return forSpaces(mask, addresses,
                     [&](uint32_t part, Space actual, const Lanes<uint64_t> &within) {
                       readLanes(warp, at, part, actual, within, bytes, data);
                     });
  }
}

void writeLanes(Warp &warp, const Instruction &at, uint32_t mask, Space space,
                const Lanes<uint64_t> &addresses, unsigned bytes, const LaneBytes &data) {
  requireAligned(warp, at, mask, addresses, bytes);
  switch (space) {
  case Space::Global:
    return writeGlobal(warp, at, mask, addresses, bytes, data);
  case Space::Shared:
    return writeShared(warp, at, mask, addresses, bytes, data);
  case Space::Local:
    return forLanes(mask, [&](unsigned lane) {
      std::memcpy(localPlace(warp, at, lane, addresses[lane], bytes), data.bytes + lane * bytes,
                  bytes);
    });
  case Space::Parameter:
    warp.fail(cuda::CUDA_ERROR_ILLEGAL_ADDRESS, at, std::countr_zero(mask),
              "a parameter is written");
  case Space::Generic:
    return forSpaces(mask, addresses,
                     [&](uint32_t part, Space actual, const Lanes<uint64_t> &within) {
                       writeLanes(warp, at, part, actual, within, bytes, data);
                     });
  }
}

std::byte *atomicPlace(Warp &warp, const Instruction &at, unsigned lane, Space space,
                       uint64_t address, unsigned bytes) {
  Lanes<uint64_t> addresses(address);
  requireAligned(warp, at, 1u << lane, addresses, bytes);
  if (space == Space::Generic) {
    space = spaceOfWindow(address);
    if (space != Space::Global)
      address &= ~kWindowMask;
  }
  if (space == Space::Shared) {
    std::byte *place = sharedPlace(warp, at, lane, address, bytes);
    SharedMemory &shared = warp.block().shared();
    uint32_t thread = warp.firstThread() + lane;
    auto offset = static_cast<uint32_t>(address);
    requireNoRace(warp, at, lane, shared.read(offset, bytes, thread, warp.epoch, true));
    requireNoRace(warp, at, lane, shared.write(offset, bytes, thread, warp.epoch, true));
    return place;
  }
  if (space != Space::Global)
    warp.fail(cuda::CUDA_ERROR_ILLEGAL_ADDRESS, at, lane,
              "an atomic operation on memory of one thread");
  requireInBounds(warp, at, 1u << lane, addresses, bytes);
  warp.block().recorder().read(address, bytes);
  warp.block().recorder().write(address, bytes);
  return warp.block().memory().hostAddress(address);
}

Space takeSpace(InstructionBuilder &builder) {
  std::string name =
      builder.takeOneOf({"global", "const", "shared", "shared::cta", "local", "param"});
  if (name == "global" || name == "const")
    return Space::Global;
  if (name == "shared" || name == "shared::cta")
    return Space::Shared;
  return name == "local" ? Space::Local : name == "param" ? Space::Parameter : Space::Generic;
}

std::string_view nameOf(Space space) {
  switch (space) {
  case Space::Global:
    return "global";
  case Space::Shared:
    return "shared";
  case Space::Local:
    return "local";
  case Space::Parameter:
    return "param";
  case Space::Generic:
    return "generic";
  }
  return "";
}

} // namespace dtc::emulator
