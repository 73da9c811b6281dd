#include "dtc/Sharding/Mesh.h"

#include <gtest/gtest.h>

using namespace dtc::sharding;

static const Mesh mesh{{{"dp", "dp", 2}, {"tp.0", "tp", 3}, {"tp.1", "tp", 2}}};

TEST(Mesh, CountsRanksRowMajor) {
  EXPECT_EQ(mesh.devices(), 12);
  EXPECT_EQ(mesh.coordinates(0), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(mesh.coordinates(11), (std::vector<int64_t>{1, 2, 1}));
  EXPECT_EQ(mesh.coordinates(7), (std::vector<int64_t>{1, 0, 1}));
}

TEST(Mesh, PositionFollowsTheOrderOfTheList) {
  int64_t rank = 9; // dp=1, tp.0=1, tp.1=1
  EXPECT_EQ(mesh.coordinates(rank), (std::vector<int64_t>{1, 1, 1}));
  EXPECT_EQ(mesh.position(rank, {0, 1}), 1 * 3 + 1);
  EXPECT_EQ(mesh.position(rank, {1, 0}), 1 * 2 + 1);
  EXPECT_EQ(mesh.position(rank, {}), 0);
}

TEST(Mesh, GroupHoldsTheRankAtItsPosition) {
  for (const AxisList &list : {AxisList{}, {0}, {1}, {2}, {0, 2}, {2, 0}, {2, 1, 0}})
    for (int64_t rank = 0; rank < mesh.devices(); ++rank) {
      std::vector<int64_t> group = mesh.group(rank, list);
      ASSERT_EQ(group.size(), static_cast<size_t>(mesh.size(list)));
      EXPECT_EQ(group[mesh.position(rank, list)], rank);
      for (size_t i = 0; i < group.size(); ++i)
        EXPECT_EQ(mesh.position(group[i], list), static_cast<int64_t>(i));
    }
}

TEST(Mesh, FindsAxes) {
  EXPECT_EQ(mesh.find("tp.1"), 2);
  EXPECT_EQ(mesh.find("tp"), -1);
  EXPECT_EQ(mesh.ofDegree("tp"), (AxisList{1, 2}));
  EXPECT_EQ(mesh.ofDegree("pp"), AxisList{});
}
