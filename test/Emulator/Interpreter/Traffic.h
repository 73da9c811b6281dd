// How much of a GPU's memory a launch moves, against the least that it must.
//
// A GPU moves sectors of 32 bytes. What a block has moved once is counted once, as if a cache held
// it while the block runs. What two blocks move is counted twice. So a kernel that reads a row in
// several passes is as good as one that keeps it. One that leaves bytes of its sectors unused is
// not.
#pragma once

#include "Emulator/Device/AccessHistory.h"

#include <string>
#include <unordered_set>

namespace dtc::emulator {

inline constexpr uint64_t kSectorBytes = 32;

class Traffic {
public:
  /// Whether DTC_EMULATED_GPU_TRAFFIC names a file.
  static bool isCounted();

  void beginBlock() {
    for (auto &kind : sectors)
      kind.clear();
  }
  /// `kind`: 0 for a read, 1 for a write.
  void count(uint64_t address, uint64_t bytes, int kind) {
    for (uint64_t sector = address / kSectorBytes; sector * kSectorBytes < address + bytes;
         ++sector)
      moved[kind] += sectors[kind].insert(sector).second ? kSectorBytes : 0;
  }
  /// Adds a line of JSON to the file: what was moved, how many bytes `accesses` are, in how many
  /// sectors these lie, and how many instructions threads have executed.
  void write(const std::string &kernel, uint64_t blocks, uint64_t threads, uint64_t executed,
             const Accesses &accesses) const;

private:
  uint64_t moved[2] = {};
  std::unordered_set<uint64_t> sectors[2]; // that the block has touched
};

} // namespace dtc::emulator
