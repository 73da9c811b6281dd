#include "dtc/Schedule/GradientBuckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace dtc::schedule;

TEST(GradientBuckets, FourOfFewBytes) {
  EXPECT_EQ(countGradientSums(0, 0, 2), 0);
  EXPECT_EQ(countGradientSums(3, 3e9, 2), 3);
  EXPECT_EQ(countGradientSums(50, 1e3, 2), 1);
  EXPECT_EQ(countGradientSums(50, 3 * 131072 - 1, 2), 2);
  EXPECT_EQ(countGradientSums(50, 4 * 131072, 2), 4);
  EXPECT_EQ(countGradientSums(50, 100e6, 2), 4);
  EXPECT_EQ(countGradientSums(50, 101e6, 2), 5);
  EXPECT_EQ(countGradientSums(50, 9e9, 2), 50);
}

TEST(GradientBuckets, LargerAmongManyRanks) {
  EXPECT_EQ(countBuckets(0, 2), 1);
  EXPECT_EQ(countBuckets(1e9, 12), 40);
  EXPECT_EQ(countBuckets(1e9, 100), 5);
  EXPECT_EQ(countGradientSums(50, 1e9, 100), 5);
}

TEST(GradientBuckets, FollowTheOrder) {
  EXPECT_EQ(splitGradients(std::vector<int64_t>{10, 2, 2, 2, 2, 2}, 4),
            (std::vector<size_t>{1, 4, 5, 6}));
  EXPECT_EQ(splitGradients(std::vector<int64_t>{2, 2, 2, 2, 2, 10}, 4),
            (std::vector<size_t>{3, 4, 5, 6}));
  EXPECT_EQ(splitGradients(std::vector<int64_t>{8, 8, 32, 8, 8}, 4),
            (std::vector<size_t>{2, 3, 4, 5}));
  EXPECT_TRUE(splitGradients({}, 4).empty());
}

/// As many calls as are priced, whatever the order, and none without a gradient.
TEST(GradientBuckets, AreAsManyAsAreAskedFor) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int64_t> bytes(1 + random() % 12);
    for (int64_t &each : bytes)
      each = random() % 3 ? random() % 8 : random() % 1000;
    auto calls = int64_t(1 + random() % bytes.size());
    std::vector<size_t> ends = splitGradients(bytes, calls);
    ASSERT_EQ(ends.size(), size_t(calls)) << round;
    EXPECT_EQ(ends.back(), bytes.size());
    EXPECT_GT(ends.front(), 0u);
    EXPECT_EQ(std::ranges::adjacent_find(ends, std::greater_equal<>()), ends.end());
  }
}
