// Shared memory of a block, with who touched what since the last barrier.
//
// Two threads race where both touch a place, one of them writes, and no barrier lies between.
// Barriers are the block's and, for lanes of one warp, also `bar.warp.sync`. Each granule of bytes
// remembers its last writer and its readers. A moment is the count of the block's barriers and of
// the warp's own barriers since.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dtc::emulator {

class SharedMemory {
public:
  SharedMemory(uint32_t bytes, uint32_t granule);

  /// Begins a block: fills the memory with ones, and forgets who touched it.
  void reset();

  void nextEpoch() { ++epoch; }

  uint32_t size() const { return static_cast<uint32_t>(bytes.size()); }
  std::byte *data() { return bytes.data(); }

  /// A thread's access; returns what is wrong with it, or nothing. `warpEpoch` counts the barriers
  /// of its warp since the block's last.
  std::string read(uint32_t offset, uint32_t count, uint32_t thread, uint32_t warpEpoch);
  std::string write(uint32_t offset, uint32_t count, uint32_t thread, uint32_t warpEpoch);

private:
  struct Touch {
    uint32_t epoch = 0, warpEpoch = 0; // the first epoch of a block is never 0
    uint16_t thread = 0;
  };
  struct Granule {
    Touch writer, reader;
    bool hasManyReaders = false; // of the reader's moment
    bool hasReadersInOtherWarps = false;
  };

  bool isConcurrent(const Touch &touch, uint32_t thread, uint32_t warpEpoch) const {
    if (touch.epoch != epoch || touch.thread == thread)
      return false;
    return touch.thread / 32 != thread / 32 || touch.warpEpoch == warpEpoch;
  }
  void noteReader(Granule &place, uint32_t thread, uint32_t warpEpoch);

  std::vector<std::byte> bytes;
  std::vector<Granule> granules;
  uint32_t granule;
  uint32_t epoch = 0;
  uint32_t firstEpoch = 0; // of the present block: what was written before isn't there any more
};

} // namespace dtc::emulator
