#include "CachingAllocator.h"

#include <algorithm>

namespace dtc::plan {

static constexpr int64_t kMiB = int64_t{1} << 20;
/// Sizes are rounded to this.
static constexpr int64_t kGrain = 512;
/// Requests of up to kSmall share segments of kSmallSegment. Larger ones below
/// kLarge share segments of kSharedSegment; others have a segment, rounded to kSmallSegment.
static constexpr int64_t kSmall = kMiB, kSmallSegment = 2 * kMiB;
static constexpr int64_t kLarge = 10 * kMiB, kSharedSegment = 20 * kMiB;

static int64_t roundUp(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

static int64_t segmentBytes(int64_t bytes) {
  if (bytes <= kSmall)
    return kSmallSegment;
  return bytes < kLarge ? kSharedSegment : roundUp(bytes, kSmallSegment);
}

int CachingAllocator::newBlock(const Block &block) {
  if (unused.empty()) {
    blocks.push_back(block);
    return static_cast<int>(blocks.size()) - 1;
  }
  int number = unused.back();
  unused.pop_back();
  blocks[number] = block;
  return number;
}

CachingAllocator::Pool &CachingAllocator::poolOf(int stream, bool small) {
  if (pools.size() <= static_cast<size_t>(stream))
    pools.resize(stream + 1);
  return pools[stream][small];
}

void CachingAllocator::keep(int number) {
  const Block &block = blocks[number];
  Pool &pool = poolOf(block.stream, block.small);
  FreeBlock entry{block.bytes, block.segment, block.offset, number};
  pool.insert(std::lower_bound(pool.begin(), pool.end(), entry), entry);
}

/// The smallest free block that is large enough, taken out of its pool; -1: none.
int CachingAllocator::findFree(int64_t bytes, int stream, bool small) {
  Pool &pool = poolOf(stream, small);
  auto it = std::lower_bound(pool.begin(), pool.end(), FreeBlock{bytes, -1, -1, -1});
  if (it == pool.end())
    return -1;
  int number = it->number;
  pool.erase(it);
  return number;
}

int CachingAllocator::addSegment(int64_t bytes, int stream, bool small) {
  if (reservedBytes + bytes > capacity)
    giveBack();
  if (reservedBytes + bytes > capacity)
    return -1;
  reservedBytes += bytes;
  peak = std::max(peak, reservedBytes);
  return newBlock({bytes, -1, -1, segments++, 0, stream, small, false});
}

/// All segments of which no part is in use.
void CachingAllocator::giveBack() {
  for (std::array<Pool, 2> &ofStream : pools)
    for (Pool &pool : ofStream)
      std::erase_if(pool, [&](const FreeBlock &entry) {
        const Block &block = blocks[entry.number];
        if (block.previous >= 0 || block.next >= 0)
          return false;
        reservedBytes -= block.bytes;
        unused.push_back(entry.number);
        return true;
      });
}

/// Leaves `bytes` to a block; what comes after them is free.
void CachingAllocator::split(int number, int64_t bytes) {
  Block rest = blocks[number];
  rest.offset += bytes;
  rest.bytes -= bytes;
  rest.previous = number;
  int after = newBlock(rest);
  if (rest.next >= 0)
    blocks[rest.next].previous = after;
  blocks[number].next = after;
  blocks[number].bytes = bytes;
  keep(after);
}

std::optional<int> CachingAllocator::allocate(int64_t bytes, int stream) {
  bytes = std::max(roundUp(bytes, kGrain), kGrain);
  bool small = bytes <= kSmall;
  int number = findFree(bytes, stream, small);
  if (number < 0)
    number = addSegment(segmentBytes(bytes), stream, small);
  if (number < 0)
    return std::nullopt;
  int64_t rest = blocks[number].bytes - bytes;
  if (small ? rest >= kGrain : rest > kSmall)
    split(number, bytes);
  blocks[number].used = true;
  allocatedBytes += blocks[number].bytes;
  return number;
}

/// Joins two free blocks that lie beside each other; the first one stays.
int CachingAllocator::absorb(int first, int second) {
  Block &block = blocks[first];
  const Block &gone = blocks[second];
  block.bytes += gone.bytes;
  block.next = gone.next;
  if (gone.next >= 0)
    blocks[gone.next].previous = first;
  unused.push_back(second);
  return first;
}

void CachingAllocator::free(int number) {
  blocks[number].used = false;
  allocatedBytes -= blocks[number].bytes;
  auto takeOut = [&](int neighbour) {
    if (neighbour < 0 || blocks[neighbour].used)
      return false;
    const Block &block = blocks[neighbour];
    Pool &pool = poolOf(block.stream, block.small);
    pool.erase(std::lower_bound(pool.begin(), pool.end(),
                                FreeBlock{block.bytes, block.segment, block.offset, neighbour}));
    return true;
  };
  if (int next = blocks[number].next; takeOut(next))
    absorb(number, next);
  if (int previous = blocks[number].previous; takeOut(previous))
    number = absorb(previous, number);
  keep(number);
}

} // namespace dtc::plan
