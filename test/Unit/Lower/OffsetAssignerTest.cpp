#include "dtc/Lower/OffsetAssigner.h"

#include <gtest/gtest.h>

#include <random>

using namespace dtc::lower;

namespace {

std::vector<Interval> randomIntervals(uint32_t seed, size_t count) {
  std::mt19937 generator(seed);
  auto draw = [&](uint32_t bound) { return static_cast<int64_t>(generator() % bound); };
  std::vector<Interval> intervals;
  for (size_t i = 0; i < count; ++i) {
    int64_t first = draw(200);
    int64_t length = draw(10) == 0 ? draw(150) : draw(12);
    intervals.push_back({first, first + length, static_cast<uint64_t>(draw(100000))});
  }
  return intervals;
}

/// Forward activations that live until their backward op, as in training.
std::vector<Interval> nestedIntervals(int64_t layers) {
  std::vector<Interval> intervals;
  for (int64_t layer = 0; layer < layers; ++layer) {
    int64_t forward = 4 * layer, backward = 8 * layers - 4 * layer;
    intervals.push_back({forward, backward, 4096});
    intervals.push_back({forward + 1, forward + 2, 16384});
    intervals.push_back({backward, backward + 2, 16384});
  }
  return intervals;
}

bool liveTogether(const Interval &a, const Interval &b) {
  return a.first <= b.last && b.first <= a.last;
}

/// The indices of two intervals that overlap in both time and address; {-1, -1} where there are
/// none.
std::pair<int64_t, int64_t> findOverlap(const std::vector<Interval> &intervals,
                                        const std::vector<uint64_t> &offsets) {
  for (size_t a = 0; a < intervals.size(); ++a)
    for (size_t b = a + 1; b < intervals.size(); ++b) {
      if (intervals[a].size == 0 || intervals[b].size == 0 ||
          !liveTogether(intervals[a], intervals[b]))
        continue;
      if (offsets[a] < offsets[b] + intervals[b].size &&
          offsets[b] < offsets[a] + intervals[a].size)
        return {static_cast<int64_t>(a), static_cast<int64_t>(b)};
    }
  return {-1, -1};
}

TEST(OffsetAssigner, RandomIntervalsNeverOverlapAndStayNearTheBound) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::vector<Interval> intervals = randomIntervals(seed, 20 + seed * 10);
    OffsetAssignment result = assignOffsets(intervals);
    ASSERT_EQ(result.offsets.size(), intervals.size());
    EXPECT_EQ(findOverlap(intervals, result.offsets), (std::pair<int64_t, int64_t>(-1, -1)));
    for (size_t i = 0; i < intervals.size(); ++i) {
      EXPECT_EQ(result.offsets[i] % 64, 0u);
      EXPECT_LE(result.offsets[i] + intervals[i].size, result.total);
    }
    EXPECT_GE(result.total, result.lowerBound);
    EXPECT_LE(double(result.total - result.lowerBound), 0.10 * double(result.total))
        << "seed " << seed;
  }
}

TEST(OffsetAssigner, NestedLifetimesReachTheBound) {
  OffsetAssignment result = assignOffsets(nestedIntervals(24));
  EXPECT_EQ(result.total, result.lowerBound);
}

TEST(OffsetAssigner, BuffersOfDifferentMomentsShareAddresses) {
  OffsetAssignment result = assignOffsets({{0, 1, 100}, {2, 3, 100}, {0, 3, 64}});
  EXPECT_EQ(result.offsets[0], result.offsets[1]);
  EXPECT_EQ(result.total, 128u + 64u);
}

TEST(OffsetAssigner, LifetimesThatTouchAreTogether) {
  OffsetAssignment result = assignOffsets({{0, 1, 64}, {1, 2, 64}});
  EXPECT_EQ(result.total, 128u);
}

TEST(OffsetAssigner, PeakIsOfOneMoment) {
  EXPECT_EQ(peakBytes({{0, 1, 100}, {2, 3, 1}, {1, 2, 64}}), 128u + 64u);
  EXPECT_EQ(peakBytes({{0, 1, 100}, {2, 3, 1}}, 1), 100u);
  EXPECT_EQ(peakBytes({}), 0u);
}

TEST(OffsetAssigner, IsDeterministic) {
  std::vector<Interval> intervals = randomIntervals(7, 300);
  EXPECT_EQ(assignOffsets(intervals).offsets, assignOffsets(intervals).offsets);
}

TEST(OffsetAssigner, NothingTakesNothing) {
  EXPECT_EQ(assignOffsets({}).total, 0u);
  EXPECT_EQ(assignOffsets({{0, 5, 0}}).total, 0u);
}

TEST(FindOverlap, SeesAnOverlap) {
  EXPECT_EQ(findOverlap({{0, 2, 100}, {2, 3, 100}}, {0, 64}), (std::pair<int64_t, int64_t>(0, 1)));
  EXPECT_EQ(findOverlap({{0, 2, 100}, {3, 3, 100}}, {0, 64}),
            (std::pair<int64_t, int64_t>(-1, -1)));
}

} // namespace
