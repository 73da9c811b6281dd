#include "Emulator/Interpreter/Block.h"

#include "Emulator/Device/DeviceMemory.h"
#include "Emulator/Device/Fault.h"
#include "dtc-cuda/Driver.h"

#include <atomic>
#include <cstdlib>

namespace dtc::emulator {

namespace {

std::atomic<uint64_t> executedTotal{0};

unsigned warpsOf(const Launch &launch) {
  return static_cast<unsigned>((launch.threads.count() + kLanes - 1) / kLanes);
}

} // namespace

uint64_t executedThreadInstructions() { return executedTotal; }

Block::Block(const Launch &launch, const DeviceMemory &memory)
    : owner(&launch), device(memory), accesses(memory),
      sharedMemory(launch.program->sharedBytes + launch.dynamicSharedBytes,
                   launch.program->sharedGranule),
      localMemory(launch.threads.count() * launch.program->localBytes),
      registers(
          static_cast<std::byte *>(std::aligned_alloc(
              256, std::max<size_t>(256, size_t(warpsOf(launch)) * launch.program->registerBytes))),
          std::free),
      allocations(launch.program->code.size(), Range{0, 0}) {
  // Values that no thread has written are never zero by luck.
  std::memset(registers.get(), 0xff, size_t(warpsOf(launch)) * launch.program->registerBytes);
  std::fill(localMemory.begin(), localMemory.end(), std::byte{0xff});
  warps.reserve(warpsOf(launch));
  for (unsigned i = 0; i < warpsOf(launch); ++i)
    warps.emplace_back(*this, i, registers.get() + size_t(i) * launch.program->registerBytes,
                       *launch.program);
}

unsigned Block::lanesOf(unsigned warp) const {
  return static_cast<unsigned>(
      std::min<uint64_t>(kLanes, owner->threads.count() - uint64_t(warp) * kLanes));
}

std::string Block::position() const {
  return "(" + std::to_string(place.x) + ", " + std::to_string(place.y) + ", " +
         std::to_string(place.z) + ")";
}

void Block::run(Extent position) {
  accesses.traffic().beginBlock();
  place = position;
  sharedMemory.reset();
  for (Warp &warp : warps)
    warp.start(fullMask(warp.index()));
  while (true) {
    bool waits = false;
    for (Warp &warp : warps) {
      if (warp.state() != Warp::State::Exited)
        executed += warp.run();
      waits |= warp.state() == Warp::State::AtBarrier;
    }
    if (!waits)
      return;
    releaseBarrier();
  }
}

/// Every warp waits at the barrier or has exited; one that has can't arrive any more.
void Block::releaseBarrier() {
  const Warp *waiting = nullptr;
  for (const Warp &warp : warps)
    if (warp.state() == Warp::State::AtBarrier && !waiting)
      waiting = &warp;
  for (const Warp &warp : warps) {
    if (warp.state() == Warp::State::Exited)
      waiting->fail(cuda::CUDA_ERROR_LAUNCH_FAILED, *waiting->waitsAt, 0,
                    "divergent barrier: warp " + std::to_string(warp.index()) +
                        " has exited without arriving");
    if (warp.waitsAt->immediate != waiting->waitsAt->immediate)
      waiting->fail(cuda::CUDA_ERROR_LAUNCH_FAILED, *waiting->waitsAt, 0,
                    "divergent barrier: warp " + std::to_string(warp.index()) + " waits at line " +
                        std::to_string(warp.waitsAt->line));
  }
  sharedMemory.nextEpoch();
  for (Warp &warp : warps)
    warp.epoch = 0;
}

uint32_t Block::specialOf(Special special, unsigned warp, unsigned lane) const {
  const Extent &threads = owner->threads, &blocks = owner->blocks;
  unsigned thread = warp * kLanes + lane;
  uint32_t less = (1u << lane) - 1, equal = 1u << lane;
  switch (special) {
  case Special::ThreadX:
    return thread % threads.x;
  case Special::ThreadY:
    return thread / threads.x % threads.y;
  case Special::ThreadZ:
    return thread / threads.x / threads.y;
  case Special::BlockX:
    return place.x;
  case Special::BlockY:
    return place.y;
  case Special::BlockZ:
    return place.z;
  case Special::ThreadsX:
    return threads.x;
  case Special::ThreadsY:
    return threads.y;
  case Special::ThreadsZ:
    return threads.z;
  case Special::BlocksX:
    return blocks.x;
  case Special::BlocksY:
    return blocks.y;
  case Special::BlocksZ:
    return blocks.z;
  case Special::Lane:
    return lane;
  case Special::WarpOfBlock:
    return warp;
  case Special::Warps:
    return static_cast<uint32_t>(warps.size());
  case Special::MaskEqual:
    return equal;
  case Special::MaskLess:
    return less;
  case Special::MaskLessEqual:
    return less | equal;
  case Special::MaskGreater:
    return ~(less | equal);
  case Special::MaskGreaterEqual:
    return ~less;
  }
  return 0; // no other register
}

Lanes<uint32_t> Block::special(Special special, unsigned warp) const {
  Lanes<uint32_t> result;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    result[lane] = specialOf(special, warp, lane);
  return result;
}

Accesses runLaunch(const Launch &launch, const DeviceMemory &memory) {
  Block block(launch, memory);
  Extent position;
  for (position.z = 0; position.z < launch.blocks.z; ++position.z)
    for (position.y = 0; position.y < launch.blocks.y; ++position.y)
      for (position.x = 0; position.x < launch.blocks.x; ++position.x)
        block.run(position);
  executedTotal += block.executed;
  Accesses accesses = block.recorder().take();
  if (Traffic::isCounted())
    block.recorder().traffic().write(launch.program->name, launch.blocks.count(),
                                     launch.threads.count(), block.executed, accesses);
  return accesses;
}

} // namespace dtc::emulator
