#include "dtc/Lower/OffsetAssigner.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace dtc::lower {
namespace {

using Order = std::vector<size_t>;

uint64_t alignTo(uint64_t size, uint64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

/// A buffer that has its place. Kept side by side, as placing compares with all of them.
struct Placed {
  uint64_t offset, end;
  int64_t first, last;
};

/// The lowest offset of the smallest gap below the highest placed buffer that
/// takes the interval; above all of them when no gap does. `placed` is in order of offset.
uint64_t bestFit(const std::vector<Placed> &placed, const Interval &interval) {
  uint64_t top = 0, best = 0, bestGap = UINT64_MAX;
  for (const Placed &other : placed) {
    if (other.first > interval.last || interval.first > other.last)
      continue;
    if (other.offset > top) {
      uint64_t gap = other.offset - top;
      if (gap == interval.size) // no later gap is smaller
        return top;
      if (gap > interval.size && gap < bestGap) {
        bestGap = gap;
        best = top;
      }
    }
    top = std::max(top, other.end);
  }
  return bestGap == UINT64_MAX ? top : best;
}

OffsetAssignment place(const std::vector<Interval> &intervals, const Order &order) {
  OffsetAssignment result;
  result.offsets.assign(intervals.size(), 0);
  std::vector<Placed> placed;
  placed.reserve(order.size());
  for (size_t index : order) {
    const Interval &interval = intervals[index];
    uint64_t offset = bestFit(placed, interval), end = offset + interval.size;
    result.offsets[index] = offset;
    auto where = std::upper_bound(
        placed.begin(), placed.end(), offset,
        [](uint64_t value, const Placed &other) { return value < other.offset; });
    placed.insert(where, {offset, end, interval.first, interval.last});
    result.total = std::max(result.total, end);
  }
  return result;
}

using Key = std::pair<double, double>;

/// Indices sorted by descending `key`; equal keys keep the order of the input.
Order descending(const std::vector<Interval> &intervals, Key (*key)(const Interval &)) {
  std::vector<Key> keys(intervals.size());
  std::transform(intervals.begin(), intervals.end(), keys.begin(), key);
  Order order(intervals.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return keys[a] != keys[b] ? keys[a] > keys[b] : a < b;
  });
  return order;
}

double sizeOf(const Interval &i) { return static_cast<double>(i.size); }
double lengthOf(const Interval &i) { return static_cast<double>(i.last - i.first + 1); }

/// What the orders to try sort by; each tells intervals apart in its own way. The first is the one
/// that reaches the bound soonest for training steps. What lives from the forward to the backward
/// pass is packed, and what comes and goes finds room above it.
constexpr Key (*kKeys[])(const Interval &) = {
    [](const Interval &i) { return Key(lengthOf(i), sizeOf(i)); },
    [](const Interval &i) { return Key(sizeOf(i), lengthOf(i)); },
    [](const Interval &i) { return Key(sizeOf(i) * lengthOf(i), sizeOf(i)); },
    [](const Interval &i) { return Key(-static_cast<double>(i.first), sizeOf(i)); },
};

/// Moves the buffers that end at the top of the arena to the front of the order, where they find
/// the lowest places. The others keep their order.
void hoistHighest(const std::vector<Interval> &intervals, const OffsetAssignment &result,
                  Order &order) {
  std::stable_partition(order.begin(), order.end(), [&](size_t index) {
    return result.offsets[index] + intervals[index].size == result.total;
  });
}

/// Rounds of improvement that n buffers may take: a round is quadratic in n.
int64_t roundsFor(size_t count) {
  constexpr uint64_t kWork = 20'000'000;
  uint64_t round = static_cast<uint64_t>(count) * count + 1;
  return static_cast<int64_t>(std::min<uint64_t>(64, kWork / round));
}

} // namespace

uint64_t peakBytes(const std::vector<Interval> &intervals, uint64_t alignment) {
  std::map<int64_t, int64_t> changes; // signed: what begins minus what ended before
  for (const Interval &interval : intervals) {
    auto size = static_cast<int64_t>(alignTo(interval.size, alignment));
    changes[interval.first] += size;
    changes[interval.last + 1] -= size;
  }
  int64_t live = 0, most = 0;
  for (const auto &[moment, change] : changes) {
    live += change;
    most = std::max(most, live);
  }
  return static_cast<uint64_t>(most);
}

OffsetAssignment assignOffsets(const std::vector<Interval> &given, uint64_t alignment) {
  std::vector<Interval> intervals = given;
  for (Interval &interval : intervals)
    interval.size = alignTo(interval.size, alignment);
  uint64_t lowerBound = peakBytes(intervals, alignment);
  OffsetAssignment best;
  auto consider = [&](const OffsetAssignment &candidate) {
    if (best.offsets.size() != intervals.size() || candidate.total < best.total)
      best = candidate;
    return best.total == lowerBound;
  };
  for (auto key : kKeys) {
    Order order = descending(intervals, key);
    OffsetAssignment candidate = place(intervals, order);
    bool done = consider(candidate);
    for (int64_t round = roundsFor(intervals.size()); round > 0 && !done; --round) {
      hoistHighest(intervals, candidate, order);
      candidate = place(intervals, order);
      done = consider(candidate);
    }
    if (done)
      break;
  }
  best.lowerBound = lowerBound;
  return best;
}

} // namespace dtc::lower
