// A launch, and the thread block of it that is being carried out.
#pragma once

#include "Emulator/Interpreter/AccessRecorder.h"
#include "Emulator/Interpreter/SharedMemory.h"
#include "Emulator/Interpreter/Warp.h"

namespace dtc::emulator {

class DeviceMemory;

struct Extent {
  unsigned x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t(x) * y * z; }
};

/// A launch of a kernel, with its parameters copied.
struct Launch {
  std::shared_ptr<const Program> program;
  Extent blocks, threads;
  unsigned dynamicSharedBytes = 0;
  std::vector<std::byte> parameters;
};

/// Carries out a launch, and says which bytes of the device it has read and written.
Accesses runLaunch(const Launch &launch, const DeviceMemory &memory);

class Block {
public:
  Block(const Launch &launch, const DeviceMemory &memory);

  /// Carries out the block at a position of the grid.
  void run(Extent position);

  Lanes<uint32_t> special(Special special, unsigned warp) const;
  unsigned lanesOf(unsigned warp) const;
  bool hasExited(const Warp &warp) const { return warp.liveLanes() != fullMask(warp.index()); }
  std::string position() const;

  const Launch &launch() const { return *owner; }
  const DeviceMemory &memory() const { return device; }
  AccessRecorder &recorder() { return accesses; }
  SharedMemory &shared() { return sharedMemory; }

  /// The allocation that an instruction last accessed: most stay in one.
  Range &cachedAllocation(const Instruction &at) {
    return allocations[&at - launch().program->code.data()];
  }

  uint64_t executed = 0;

private:
  uint32_t fullMask(unsigned warp) const {
    unsigned lanes = lanesOf(warp);
    return lanes == kLanes ? kAllLanes : (1u << lanes) - 1;
  }
  void releaseBarrier();

  struct alignas(256) RegisterBytes {
    std::byte bytes[256];
  };

  const Launch *owner;
  const DeviceMemory &device;
  Extent place;
  AccessRecorder accesses;
  SharedMemory sharedMemory;
  std::vector<RegisterBytes> registers;
  std::vector<Warp> warps;
  std::vector<Range> allocations;
};

} // namespace dtc::emulator
