#include "Emulator/Interpreter/Block.h"

#include "Emulator/Device/DeviceMemory.h"
#include "Emulator/Device/Fault.h"
#include "dtc-cuda/Driver.h"

#include <cstdlib>

namespace dtc::emulator {

namespace {

unsigned warpsOf(const Launch &launch) {
  return static_cast<unsigned>((launch.threads.count() + kLanes - 1) / kLanes);
}

} // namespace

Block::Block(const Launch &launch, const DeviceMemory &memory)
    : owner(&launch), device(memory),
      sharedMemory(launch.program->sharedBytes + launch.dynamicSharedBytes,
                   launch.program->sharedGranule),
      registers(
          static_cast<std::byte *>(std::aligned_alloc(
              256, std::max<size_t>(256, size_t(warpsOf(launch)) * launch.program->registerBytes))),
          std::free),
      allocations(launch.program->code.size(), Range{0, 0}) {
  // Values that no thread has written are never zero by luck.
  std::memset(registers.get(), 0xff, size_t(warpsOf(launch)) * launch.program->registerBytes);
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
  return concat("(", place.x, ", ", place.y, ", ", place.z, ")");
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
                    "divergent barrier: warp ", warp.index(), " has exited without arriving");
    if (warp.waitsAt->immediate != waiting->waitsAt->immediate)
      waiting->fail(cuda::CUDA_ERROR_LAUNCH_FAILED, *waiting->waitsAt, 0,
                    "divergent barrier: warp ", warp.index(), " waits at line ",
                    warp.waitsAt->line);
  }
  sharedMemory.nextEpoch();
  for (Warp &warp : warps)
    warp.epoch = 0;
}

Lanes<uint32_t> Block::special(Special special, unsigned warp) const {
  Lanes<uint32_t> result;
  switch (special) {
  case Special::Thread:
    for (unsigned lane = 0; lane < kLanes; ++lane)
      result[lane] = (warp * kLanes + lane) % owner->threads.x;
    return result;
  case Special::Block:
    return Lanes<uint32_t>(place.x);
  case Special::Threads:
    return Lanes<uint32_t>(owner->threads.x);
  case Special::Blocks:
    return Lanes<uint32_t>(owner->blocks.x);
  }
}

Accesses runLaunch(const Launch &launch, const DeviceMemory &memory) {
  Block block(launch, memory);
  Extent position;
  for (position.z = 0; position.z < launch.blocks.z; ++position.z)
    for (position.y = 0; position.y < launch.blocks.y; ++position.y)
      for (position.x = 0; position.x < launch.blocks.x; ++position.x)
        block.run(position);
  Accesses accesses = block.recorder().take();
  if (Traffic::isCounted())
    block.recorder().traffic().write(launch.program->name, launch.blocks.count(),
                                     launch.threads.count(), block.executed, accesses);
  return accesses;
}

} // namespace dtc::emulator
