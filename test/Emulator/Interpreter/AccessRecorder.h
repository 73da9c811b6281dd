// The bytes of a device that a launch reads and writes, a bit for each.
#pragma once

#include "Emulator/Interpreter/Traffic.h"

#include <array>
#include <unordered_map>

namespace dtc::emulator {

class AccessRecorder {
public:
  void read(uint64_t address, uint64_t bytes) { note(address, bytes, 0); }
  void write(uint64_t address, uint64_t bytes) { note(address, bytes, 1); }
  Traffic &traffic() { return moved; }

  /// The accesses so far, as sorted ranges.
  Accesses take();

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
    if (Traffic::isCounted())
      moved.count(address, bytes, kind);
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
  Traffic moved;
};

} // namespace dtc::emulator
