// Curves of memory that hide no peak.
#include "Memory.h"

#include <gtest/gtest.h>

namespace dtc::report {

TEST(Memory, EachColumnHasItsHighest) {
  // A peak that is much shorter than a column.
  auto highest = highestPerColumn({{0, 10}, {2.5, 90}, {2.6, 20}}, 4, 4);
  EXPECT_EQ(highest, (std::vector<double>{10, 10, 90, 20}));
}

TEST(Memory, WhatLastsNoTimeIsNoPeak) {
  auto highest = highestPerColumn({{0, 10}, {1.5, 90}, {1.5, 30}}, 4, 4);
  EXPECT_EQ(highest, (std::vector<double>{10, 30, 30, 30}));
}

TEST(Memory, AStepOfNoLengthHasNoCurve) {
  EXPECT_EQ(highestPerColumn({{0, 10}}, 0, 2), (std::vector<double>{0, 0}));
}

TEST(Memory, TheFullestRankIsAmongThoseChosen) {
  std::vector<double> peaks(40, 1);
  peaks[17] = 2;
  EXPECT_EQ(chooseRanks(peaks, 4), (std::vector<int32_t>{0, 13, 17, 39}));
  EXPECT_EQ(chooseRanks({1, 2, 3}, 4), (std::vector<int32_t>{0, 1, 2}));
}

TEST(Memory, KindsAreAllOfIt) {
  plan::MemoryUse use{1, 20, 300, 4000, 50000, 600000};
  int64_t sum = 0;
  for (const MemoryKind &kind : memoryKinds())
    sum += use.*kind.bytes;
  EXPECT_EQ(sum, use.total());
}

} // namespace dtc::report
