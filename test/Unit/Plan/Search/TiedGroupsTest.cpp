// Which ranks have a communicator for sums of tied gradients, and what that takes of their memory.
#include "FoundStages.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

/// Of 1F1B, by pipeline rank.
std::vector<int64_t> groupsOf(const char *problem, int64_t devices, const std::string &spec,
                              const Cluster &on = cluster("dgx-h100"), bool areApart = false) {
  const FoundStages of(best(load(problem), devices, spec + ",schedule=1f1b", on), on);
  std::vector<int64_t> groups;
  for (int64_t rank = 0; rank < of.found.plan.degrees.pp; ++rank)
    groups.push_back(of.stages.costs().tiedGroups(
        of.stages.getStages(), placementOf(of.found.plan.degrees), rank, areApart));
  return groups;
}

/// The third of four stages has the head. All devices together sum up a step's numbers anyway.
TEST(TiedGroups, AreOfRanksThatHoldOneWeight) {
  using Counts = std::vector<int64_t>;
  EXPECT_EQ(groupsOf("gpt", 4, "dp=1,tp=1,pp=4"), Counts({1, 0, 1, 0}));
  EXPECT_EQ(groupsOf("gpt", 4, "dp=1,tp=2,pp=2"), Counts({1, 1}));
  EXPECT_EQ(groupsOf("gpt", 2, "dp=1,tp=1,pp=2"), Counts({0, 0})) << "all devices";
  EXPECT_EQ(groupsOf("gpt", 4, "dp=1,tp=2,pp=2", cluster("dgx-h100"), /*areApart=*/true),
            Counts({0, 0}))
      << "a group has all devices of both stages";
  EXPECT_EQ(groupsOf("llama", 4, "dp=1,tp=1,pp=4"), Counts({0, 0, 0, 0})) << "nothing is tied";
  Cluster other = cluster("dgx-h100");
  other.software.gathersWeights = false;
  EXPECT_EQ(groupsOf("gpt", 4, "dp=1,tp=2,pp=2", other), Counts({0, 0})) << "not dtc's program";
}

TEST(TiedGroups, TakeMemoryOfTheirRanks) {
  const Cluster on = cluster("dgx-h100");
  const Problem problem = load("gpt");
  const SearchResult found = best(problem, 4, "dp=1,tp=1,pp=4,schedule=1f1b", on);
  const CostModel model(on, 4);
  ASSERT_EQ(found.predicted.stages.size(), 4u);
  for (size_t stage = 0; stage < 4; ++stage) // the stages' messages have one communicator
    EXPECT_EQ(found.predicted.stages[stage].memory.reserved,
              std::llround(model.reservedBytes(stage % 2 == 0 ? 2 : 1)))
        << stage;
  // The search reckons with what is predicted.
  Planner planner(found.problem, on, 4);
  Estimate estimate;
  auto whole = planner.carriedOut(found.plan.degrees, estimate);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_NEAR(estimate.capacity,
              whole->predicted.memoryCapacity - double(whole->predicted.memory.reserved), 1);
}

} // namespace
