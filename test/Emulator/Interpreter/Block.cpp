#include "Emulator/Interpreter/Block.h"

#include "Emulator/Device/DeviceMemory.h"
#include "Emulator/Device/Fault.h"
#include "dtc-cuda/Driver.h"

namespace dtc::emulator {

Block::Block(const Launch &launch, const DeviceMemory &memory)
    : owner(&launch), device(memory),
      sharedMemory(launch.program->sharedBytes + launch.dynamicSharedBytes,
                   launch.program->sharedGranule),
      allocations(launch.program->code.size(), Range{0, 0}) {
  const auto count = static_cast<unsigned>((launch.threads.count() + kLanes - 1) / kLanes);
  const size_t bytes = launch.program->registerBytes;
  registers.resize(count * bytes / sizeof(RegisterBytes));
  // Values that no thread has written are never zero by luck.
  auto *first = reinterpret_cast<std::byte *>(registers.data());
  std::memset(first, 0xff, count * bytes);
  warps.reserve(count);
  for (unsigned i = 0; i < count; ++i)
    warps.emplace_back(*this, i, first + i * bytes, *launch.program);
}

unsigned Block::lanesOf(unsigned warp) const {
  return static_cast<unsigned>(
      std::min<uint64_t>(kLanes, owner->threads.count() - uint64_t(warp) * kLanes));
}

std::string Block::position() const {
  return concat("(", place.x, ", ", place.y, ", ", place.z, ")");
}

void Block::run(Extent position) {
  accesses.beginBlock();
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
  const uint32_t values[] = {0, place.x, owner->threads.x, owner->blocks.x};
  Lanes<uint32_t> result(values[static_cast<size_t>(special)]);
  for (unsigned lane = 0; special == Special::Thread && lane < kLanes; ++lane)
    result[lane] = (warp * kLanes + lane) % owner->threads.x;
  return result;
}

Accesses runLaunch(const Launch &launch, const DeviceMemory &memory) {
  Block block(launch, memory);
  Extent position;
  for (position.z = 0; position.z < launch.blocks.z; ++position.z)
    for (position.y = 0; position.y < launch.blocks.y; ++position.y)
      for (position.x = 0; position.x < launch.blocks.x; ++position.x)
        block.run(position);
  Accesses accesses = block.recorder().take();
  if (AccessRecorder::countsTraffic())
    block.recorder().writeTraffic(launch.program->name, launch.blocks.count(),
                                  launch.threads.count(), block.executed, accesses);
  return accesses;
}

} // namespace dtc::emulator
