// Who holds what, and which nodes are alike.
#include "Cluster.h"

#include "Problems.h"

namespace dtc::report {

static plan::Plan grid(std::vector<sharding::MeshAxis> axes, int64_t stages) {
  plan::Plan plan;
  plan.mesh.axes = std::move(axes);
  plan.degrees.pp = stages;
  for (int64_t stage = 0, next = 0; stage < stages; ++stage) {
    plan.stages.push_back({});
    for (int64_t i = 0; i < plan.mesh.devices(); ++i)
      plan.stages.back().devices.push_back(next++);
  }
  return plan;
}

TEST(Cluster, NodesThatDifferInTheCopyAloneAreFolded) {
  plan::Plan plan = grid({{"dp", "dp", 4}, {"tp", "tp", 8}}, 2);
  auto groups = foldNodes(plan::testing::cluster("dgx-h100"), plan, 64);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].nodes, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(groups[1].firstDevices, (std::vector<int64_t>{32, 40, 48, 56}));
  EXPECT_EQ(groups[1].devices, 8);
}

TEST(Cluster, NodesThatHoldOtherPartsAreNot) {
  plan::Plan plan = grid({{"dp", "dp", 1}, {"tp", "tp", 16}}, 1);
  EXPECT_EQ(foldNodes(plan::testing::cluster("dgx-h100"), plan, 16).size(), 2u);
}

TEST(Cluster, DevicesWithoutWorkAreIdle) {
  plan::Plan plan = grid({{"tp", "tp", 2}}, 1);
  auto roles = rolesOf(plan, 3);
  EXPECT_EQ(roles[1], (DeviceRole{0, 1}));
  EXPECT_EQ(roles[2], DeviceRole{});
}

TEST(Cluster, StagesOfARankShareItsDevices) {
  plan::Plan plan = grid({{"tp", "tp", 2}}, 2);
  plan.stages.push_back(plan.stages[0]);
  plan.stages.push_back(plan.stages[1]);
  plan.degrees.schedule = schedule::ScheduleKind::Interleaved;
  plan.degrees.chunks = 2;
  auto roles = rolesOf(plan, 4);
  EXPECT_EQ(roles[0].pipelineRank, 0);
  EXPECT_EQ(roles[3], (DeviceRole{1, 1}));
}

TEST(Cluster, SixteenThousandDevicesAreAFewPictures) {
  plan::Plan plan = grid({{"dp", "dp", 128}, {"tp", "tp", 8}}, 16);
  auto groups = foldNodes(plan::testing::cluster("dgx-h100"), plan, 16384);
  EXPECT_EQ(groups.size(), 16u);
  EXPECT_EQ(groups[15].nodes.size(), 128u);
}

TEST(Cluster, EachDegreeHasItsLongestWay) {
  plan::Plan plan = grid({{"dp", "dp", 2}, {"tp", "tp", 8}}, 2);
  auto links = linksOf(plan::testing::cluster("dgx-h100"), plan);
  ASSERT_EQ(links.size(), 3u);
  EXPECT_EQ(links[0].degree, "tp");
  EXPECT_EQ(links[0].level, 0); // within a node
  EXPECT_EQ(links[1].degree, "dp");
  EXPECT_GT(links[1].level, 0);
  EXPECT_EQ(links[2].degree, "pp");
  EXPECT_GT(links[2].level, 0);
}

TEST(Cluster, NumbersAreShortened) {
  EXPECT_EQ(numbersText({0, 1, 2, 3}), "0\u20133");
  EXPECT_EQ(numbersText({0, 2}), "0, 2");
  EXPECT_EQ(numbersText({4, 5, 9}), "4, 5, 9");
  EXPECT_EQ(numbersText({0, 2, 4, 6, 8, 10, 12, 14}), "0, 2, 4, 6, 8, 10 and 2 more");
}

} // namespace dtc::report
