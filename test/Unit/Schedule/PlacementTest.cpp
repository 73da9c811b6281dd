#include "dtc/Schedule/Schedule.h"

#include <gtest/gtest.h>

using namespace dtc::schedule;

TEST(Placement, InTurn) {
  Placement placement = Placement::inTurn(4, 2);
  EXPECT_EQ(placement, Placement({{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(check(placement), "");
  EXPECT_EQ(placement.ranks(), 4);
  EXPECT_EQ(placement.chunks(), 2);
  EXPECT_EQ(placement.stages(), 8);
  EXPECT_EQ(placement.stage(1, 1), 5);
  EXPECT_EQ(placement.place(6), (Place{2, 1}));
  EXPECT_FALSE(placement.staysAfter(3));
}

TEST(Placement, VShaped) {
  Placement placement({{0, 7}, {1, 6}, {2, 5}, {3, 4}});
  EXPECT_EQ(check(placement), "");
  EXPECT_EQ(placement.place(7), (Place{0, 1}));
  EXPECT_EQ(placement.rank(4), 3);
  EXPECT_TRUE(placement.staysAfter(3));
  EXPECT_FALSE(placement.staysAfter(4));
}

TEST(Placement, OneRankHoldsAll) {
  Placement placement = Placement::inTurn(1, 3);
  EXPECT_EQ(placement, Placement({{0, 1, 2}}));
  EXPECT_TRUE(placement.staysAfter(0) && placement.staysAfter(1));
}

TEST(Placement, RefusesTablesThatNoMicrobatchCanPass) {
  auto error = [](const std::vector<std::vector<int64_t>> &stages) {
    return check(Placement(stages));
  };
  EXPECT_EQ(error({{0, 2}, {1, 2}}), "stage 3 lies nowhere");
  EXPECT_EQ(error({{0, 2}, {1, -1}}), "stage 3 lies nowhere");
  EXPECT_EQ(error({{0, 2}, {1, 1000}}), "stage 3 lies nowhere");
  EXPECT_EQ(error({{0, 2}, {1}}), "stage 3 lies nowhere");
  EXPECT_EQ(error({{1, 3}, {0, 2}}), "chunk 0 of rank 0 must be stage 0, not 1");
  EXPECT_EQ(error({{0, 3, 2}, {1, 4, 5}}), "stages of rank 0 must ascend with its chunks");
}
