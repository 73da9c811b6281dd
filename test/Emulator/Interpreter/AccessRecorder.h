// The bytes of a device that a launch reads and writes, a bit for each.
//
// And how much of a GPU's memory it moves, against the least that it must. A GPU moves sectors of
// 32 bytes. What a block has moved once is counted once, as if a cache held it while the block
// runs. What two blocks move is counted twice. So a kernel that reads a row in several passes is as
// good as one that keeps it. One that leaves bytes of its sectors unused is not.
#pragma once

#include "Emulator/Device/AccessHistory.h"

#include <array>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace dtc::emulator {

inline constexpr uint64_t kSectorBytes = 32;

class AccessRecorder {
public:
  void read(uint64_t address, uint64_t bytes) { note(address, bytes, 0); }
  void write(uint64_t address, uint64_t bytes) { note(address, bytes, 1); }

  /// The accesses so far, as sorted ranges.
  Accesses take();

  /// Whether DTC_EMULATED_GPU_TRAFFIC names a file.
  static bool countsTraffic();
  void beginBlock() {
    for (auto &kind : sectors)
      kind.clear();
  }
  /// Adds a line of JSON to the file: what was moved, how many bytes `accesses` are, in how many
  /// sectors these lie, and how many instructions threads have executed.
  void writeTraffic(const std::string &kernel, uint64_t blocks, uint64_t threads, uint64_t executed,
                    const Accesses &accesses) const;

private:
  static constexpr uint64_t kPageBytes = 4096;
  static constexpr uint64_t kWords = kPageBytes / 64;
  struct Page {
    std::array<uint64_t, kWords> bits[2] = {}; // of reads, of writes
  };
  struct CacheEntry {
    uint64_t number = ~uint64_t(0);
    Page *page = nullptr;
  };

  Page &page(uint64_t number) {
    CacheEntry &entry = cache[number % cache.size()];
    if (entry.number != number)
      entry = {number, &pages[number]};
    return *entry.page;
  }

  void note(uint64_t address, uint64_t bytes, int kind) {
    if (countsTraffic())
      for (uint64_t at = address / kSectorBytes; at * kSectorBytes < address + bytes; ++at)
        moved[kind] += sectors[kind].insert(at).second ? kSectorBytes : 0;
    mark(address, bytes, kind);
  }

  void mark(uint64_t address, uint64_t bytes, int kind) {
    while (bytes > 0) {
      uint64_t offset = address % kPageBytes;
      uint64_t here = std::min(bytes, kPageBytes - offset);
      setBits(page(address / kPageBytes).bits[kind], offset, here);
      address += here;
      bytes -= here;
    }
  }

  static void setBits(std::array<uint64_t, kWords> &words, uint64_t first, uint64_t count) {
    while (count > 0) {
      uint64_t bit = first % 64, here = std::min<uint64_t>(count, 64 - bit);
      words[first / 64] |= (here == 64 ? ~uint64_t(0) : (uint64_t(1) << here) - 1) << bit;
      first += here;
      count -= here;
    }
  }

  std::unordered_map<uint64_t, Page> pages; // by address / kPageBytes; nodes don't move
  std::array<CacheEntry, 256> cache;
  uint64_t moved[2] = {};                  // bytes
  std::unordered_set<uint64_t> sectors[2]; // that the block has touched
};

} // namespace dtc::emulator
