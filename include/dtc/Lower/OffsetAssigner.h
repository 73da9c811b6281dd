// Offsets in one arena for buffers that live for a while.
//
// A buffer is needed from one moment to another; two buffers that are needed at
// the same moment may not overlap. What is asked for is a small arena:
//
//      address
//        |  +---------+  +-----+            a: moments 0-1, b: 3-4, c: 0-4
//        |  |    a    |  |  b  |            a and b share addresses
//        |  +---------+--+-----+
//        |  |         c        |
//        +--+------------------+-> moment
//
// This is dynamic storage allocation (NP-hard). Buffers are placed one by one, each into the
// smallest gap that takes it. This is done in several orders. In later ones, what was at the top of
// the result comes first. The best result is kept. The same intervals give the same offsets.
#pragma once

#include <cstdint>
#include <vector>

namespace dtc::lower {

/// A buffer, live from `first` to `last`, both included.
struct Interval {
  int64_t first = 0, last = 0;
  uint64_t size = 0; ///< bytes
};

struct OffsetAssignment {
  std::vector<uint64_t> offsets; ///< one per interval, aligned
  uint64_t total = 0;            ///< bytes of the arena, aligned
  uint64_t lowerBound = 0;       ///< peakBytes; no assignment takes less
};

/// Most bytes live at one moment, with sizes rounded up to `alignment`, a power of two.
uint64_t peakBytes(const std::vector<Interval> &intervals, uint64_t alignment = 64);

/// Places the intervals. Sizes are rounded up to `alignment`, a power of two.
OffsetAssignment assignOffsets(const std::vector<Interval> &intervals, uint64_t alignment = 64);

} // namespace dtc::lower
