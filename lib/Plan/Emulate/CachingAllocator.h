// PyTorch's allocator of device memory, as far as it decides how much of a device a
// program takes.
//
// It asks the driver for segments and cuts them into blocks. A block that is freed is kept and
// joined with free neighbours. The next request gets the smallest block that is large enough, of
// which the rest is split off. So what it holds of the device (reserved) is never less than what
// tensors take (allocated):
//
//   request   segments                    reserved   allocated
//   30 MiB    [30]                           30         30
//   free it   [30 free]                      30          0
//   12 MiB    [12][18 free]                  30         12
//   20 MiB    [12][18 free] [20]             50         32
//
// When the driver has no more, segments without a block in use are given back and the request is
// tried again. The program has run out of memory if that isn't enough.
//
// Rules: c10/cuda/CUDACachingAllocator.cpp of PyTorch with its default settings.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

namespace dtc::plan {

class CachingAllocator {
public:
  /// `capacity`: bytes that the driver has.
  explicit CachingAllocator(int64_t capacity) : capacity(capacity) {}

  /// A block of at least `bytes`, by number; nullopt: out of memory. What is freed is
  /// only used again for requests of the same stream.
  std::optional<int> allocate(int64_t bytes, int stream = 0);
  void free(int block);

  int64_t allocated() const { return allocatedBytes; }
  int64_t reserved() const { return reservedBytes; }
  int64_t peakReserved() const { return peak; }

private:
  struct FreeBlock {
    int64_t bytes = 0;
    int segment = 0;
    int64_t offset = 0;
    int number = 0;
    auto operator<=>(const FreeBlock &) const = default;
  };
  struct Block {
    int64_t bytes = 0;
    int previous = -1, next = -1; ///< beside it in its segment
    int segment = 0;              ///< where among the segments it lies
    int64_t offset = 0;
    int stream = 0;
    bool small = false, used = false;
  };
  /// Blocks that can be given out, the smallest first. Sorted in place, as there are few of them
  /// and a search replays many plans.
  using Pool = std::vector<FreeBlock>;

  Pool &poolOf(int stream, bool small);
  int findFree(int64_t bytes, int stream, bool small);
  int addSegment(int64_t bytes, int stream, bool small);
  void giveBack();
  void split(int block, int64_t bytes);
  int absorb(int block, int neighbour);
  int newBlock(const Block &block);
  void keep(int block);

  int64_t capacity;
  int64_t allocatedBytes = 0, reservedBytes = 0, peak = 0;
  int segments = 0; ///< asked for so far
  std::vector<Block> blocks;
  std::vector<int> unused; ///< numbers of blocks that are no more
  std::vector<std::array<Pool, 2>> pools; ///< by stream, and whether of small blocks
};

} // namespace dtc::plan
