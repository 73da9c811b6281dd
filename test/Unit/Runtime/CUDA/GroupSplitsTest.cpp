// Which communicators are split from which, and by how many calls.
#include "GroupSplits.h"

#include <gtest/gtest.h>

#include <set>

using namespace dtc::rt::cuda;

namespace {

/// What each rank of some needs: those of the groups that it is in.
std::vector<std::vector<GroupKey>> byRank(int ranks, const std::vector<GroupKey> &groups) {
  std::vector<std::vector<GroupKey>> result(static_cast<size_t>(ranks));
  for (const GroupKey &key : groups)
    for (int rank : key.ranks)
      result[rank].push_back(key);
  return result;
}

/// Of a mesh of pp x dp x tp the groups along tp and dp, and those that send to the next stage and
/// back.
std::vector<GroupKey> groupsOf(int pp, int dp, int tp) {
  auto rankOf = [=](int stage, int sample, int part) { return (stage * dp + sample) * tp + part; };
  std::vector<GroupKey> groups;
  for (int stage = 0; stage < pp; ++stage) {
    for (int i = 0; i < dp; ++i) {
      groups.push_back({"queue compute", {}});
      for (int part = 0; part < tp; ++part)
        groups.back().ranks.push_back(rankOf(stage, i, part));
    }
    for (int part = 0; part < tp; ++part) {
      groups.push_back({"queue collective", {}});
      for (int i = 0; i < dp; ++i)
        groups.back().ranks.push_back(rankOf(stage, i, part));
      for (int i = 0; i < dp && stage + 1 < pp; ++i) {
        int from = rankOf(stage, i, part), to = rankOf(stage + 1, i, part);
        groups.push_back({"channel 0", {from, to}});
        groups.push_back({"channel 1", {to, from}});
      }
    }
  }
  return groups;
}

} // namespace

TEST(GroupSplits, GroupsWithoutACommonRankAreOneSplit) {
  GroupSplits splits = planSplits(byRank(4, groupsOf(1, 2, 2)));
  EXPECT_EQ(splits.parent, (std::vector{0, 1, 2, 3}));
  EXPECT_FALSE(splits.whole);
  ASSERT_EQ(splits.rounds.size(), 2u);
  EXPECT_EQ(splits.rounds[0],
            (std::vector<GroupKey>{{"queue collective", {0, 2}}, {"queue collective", {1, 3}}}));
  EXPECT_EQ(splits.rounds[1],
            (std::vector<GroupKey>{{"queue compute", {0, 1}}, {"queue compute", {2, 3}}}));
}

TEST(GroupSplits, AGroupOfAllRanksIsTheParent) {
  std::vector<GroupKey> groups = groupsOf(1, 2, 2);
  groups.push_back({"queue compute", {3, 1, 2, 0}});
  GroupSplits splits = planSplits(byRank(4, groups));
  ASSERT_TRUE(splits.whole);
  EXPECT_EQ(splits.parent, (std::vector{3, 1, 2, 0}));
  EXPECT_EQ(splits.rounds.size(), 2u);
}

TEST(GroupSplits, OneCommunicatorIsNotSplit) {
  EXPECT_TRUE(planSplits(byRank(2, {{"queue compute", {0, 1}}})).parent.empty());
  EXPECT_TRUE(planSplits(byRank(4, {{"q", {0, 1}}, {"q", {2, 3}}})).parent.empty());
  EXPECT_TRUE(planSplits({{}, {}}).parent.empty());
}

/// Rank 3 doesn't know of the group of ranks 2 and 3, which is left to those that ask for it.
TEST(GroupSplits, GroupsThatSomeRanksDoNotKnowAreLeftOut) {
  std::vector<std::vector<GroupKey>> groups =
      byRank(4, {{"a", {0, 1}}, {"b", {0, 1}}, {"a", {2, 3}}});
  groups[3].clear();
  GroupSplits splits = planSplits(groups);
  EXPECT_EQ(splits.parent, (std::vector{0, 1}));
  EXPECT_EQ(*splits.whole, (GroupKey{"a", {0, 1}}));
  EXPECT_EQ(splits.rounds, (std::vector<std::vector<GroupKey>>{{{"b", {0, 1}}}}));
}

/// A rank of a middle stage is in six groups, so fewer splits than six can't do.
TEST(GroupSplits, FiveHundredTwelveRanksNeedFewSplits) {
  GroupSplits splits = planSplits(byRank(512, groupsOf(8, 8, 8)));
  EXPECT_EQ(splits.parent.size(), 512u);
  EXPECT_LE(splits.rounds.size(), 8u);
  EXPECT_GE(splits.rounds.size(), 6u);
  for (const std::vector<GroupKey> &round : splits.rounds) {
    std::set<int> ranks;
    for (const GroupKey &key : round)
      for (int rank : key.ranks)
        EXPECT_TRUE(ranks.insert(rank).second) << rank;
  }
}
