#include "RankClasses.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace dtc;
using namespace dtc::replay;

namespace {

std::unique_ptr<rt::fbs::RankListT> listOf(std::vector<int32_t> ranks) {
  auto list = std::make_unique<rt::fbs::RankListT>();
  list->ranks = std::move(ranks);
  return list;
}

std::unique_ptr<rt::fbs::GroupT> groupOf(std::vector<std::vector<int32_t>> lists) {
  auto group = std::make_unique<rt::fbs::GroupT>();
  for (auto &ranks : lists)
    group->lists.push_back(listOf(std::move(ranks)));
  return group;
}

/// Two roles of two ranks.
class TwoRoles : public testing::Test {
protected:
  rt::fbs::ProgramT first, second;
  RankClasses classes;

  std::string build(std::vector<int32_t> firstRanks = {0, 1}) {
    classes = {};
    return classes.build({{&first, std::move(firstRanks)}, {&second, {2, 3}}});
  }
};

rt::fbs::MessageT message(rt::fbs::MessageKind kind, uint32_t peers) {
  rt::fbs::MessageT result;
  result.kind = kind;
  result.peers = peers;
  return result;
}

constexpr auto kSend = rt::fbs::MessageKind::Send, kReceive = rt::fbs::MessageKind::Receive;

} // namespace

TEST_F(TwoRoles, ARoleIsAClass) {
  first.peers.push_back(listOf({2, 3}));
  second.peers.push_back(listOf({0, 1}));
  ASSERT_EQ(build(), "");
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes.representative(1), 2);
  EXPECT_EQ(classes.describe(1), "role 1 (rank 2 and 1 more)");
  EXPECT_EQ(classes.channelOf(0, message(kSend, 0)), classes.channelOf(1, message(kReceive, 0)));
  EXPECT_NE(classes.channelOf(0, message(kSend, 0)), classes.channelOf(1, message(kSend, 0)));
}

TEST_F(TwoRoles, CrossedPeersAreStillAlike) {
  first.peers.push_back(listOf({3, 2}));
  second.peers.push_back(listOf({1, 0}));
  ASSERT_EQ(build(), "");
  EXPECT_EQ(classes.size(), 2u);
}

TEST_F(TwoRoles, PeersThatDoNotLeadBackAreAnotherChannel) {
  first.peers.push_back(listOf({2, 3}));
  second.peers.push_back(listOf({1, 0}));
  ASSERT_EQ(build(), "");
  EXPECT_NE(classes.channelOf(0, message(kSend, 0)), classes.channelOf(1, message(kReceive, 0)));
}

TEST_F(TwoRoles, ARankWithoutPeerIsAnother) {
  first.peers.push_back(listOf({2, -1}));
  second.peers.push_back(listOf({0, -1}));
  ASSERT_EQ(build(), "");
  EXPECT_EQ(classes.size(), 4u);
  EXPECT_FALSE(classes.channelOf(1, message(kSend, 0)));
}

TEST_F(TwoRoles, GroupsWithinARoleAreNotShared) {
  first.groups.push_back(groupOf({{0, 1}}));
  second.groups.push_back(groupOf({{2}, {3}}));
  ASSERT_EQ(build(), "");
  EXPECT_EQ(classes.size(), 2u);
  EXPECT_FALSE(classes.communicatorOf(0, 0).isShared);
  EXPECT_FALSE(classes.communicatorOf(1, 0).isShared);
}

TEST_F(TwoRoles, GroupsOfBothRolesAreShared) {
  first.groups.push_back(groupOf({{0, 2}, {1, 3}}));
  second.groups.push_back(groupOf({{0, 2}, {1, 3}}));
  ASSERT_EQ(build(), "");
  EXPECT_EQ(classes.size(), 2u);
  EXPECT_TRUE(classes.communicatorOf(0, 0).isShared);
  EXPECT_EQ(classes.communicatorOf(0, 0).number, classes.communicatorOf(1, 0).number);
}

TEST_F(TwoRoles, OneRankInAnotherGroupDividesTheRole) {
  first.groups.push_back(groupOf({{0, 2}, {1, 3}}));
  second.groups.push_back(groupOf({{0, 2}, {3, 1}}));
  ASSERT_EQ(build(), "");
  EXPECT_EQ(classes.size(), 4u);
  EXPECT_NE(classes.communicatorOf(1, 0).number, classes.communicatorOf(3, 0).number);
}

TEST_F(TwoRoles, RefusesImpossibleLists) {
  first.peers.push_back(listOf({2}));
  EXPECT_EQ(build(), "role 0: a list of peers has 1 entries for 2 ranks");
  first.peers[0] = listOf({2, 9});
  EXPECT_EQ(build(), "role 0: a peer is no rank of any role: 9");
  first.peers.clear();
  first.groups.push_back(groupOf({{0}}));
  EXPECT_EQ(build(), "role 0: group 0 lacks rank 1");
  first.groups[0] = groupOf({{0, 1}, {1, 0}});
  EXPECT_EQ(build(), "role 0: group 0 names a rank twice: 1");
  EXPECT_EQ(build({0, 2}), "two roles have rank 2");
}

TEST(RankClassesTest, ManyRanksAreFewClasses) {
  // 16 stages on 1,024 ranks each; groups of 8 and of 128.
  constexpr int32_t kRanks = 1024, kStages = 16;
  std::vector<rt::fbs::ProgramT> programs(kStages);
  std::vector<Role> roles;
  for (int32_t stage = 0; stage < kStages; ++stage) {
    std::vector<int32_t> ranks(kRanks), before(kRanks), after(kRanks);
    std::vector<std::vector<int32_t>> tensor(kRanks / 8), data(8);
    for (int32_t i = 0; i < kRanks; ++i) {
      ranks[i] = stage * kRanks + i;
      before[i] = stage ? ranks[i] - kRanks : -1;
      after[i] = stage + 1 < kStages ? ranks[i] + kRanks : -1;
      tensor[i / 8].push_back(ranks[i]);
      data[i % 8].push_back(ranks[i]);
    }
    programs[stage].peers.push_back(listOf(before));
    programs[stage].peers.push_back(listOf(after));
    programs[stage].groups.push_back(groupOf(tensor));
    programs[stage].groups.push_back(groupOf(data));
    roles.push_back({&programs[stage], ranks});
  }
  RankClasses classes;
  ASSERT_EQ(classes.build(roles), "");
  EXPECT_EQ(classes.size(), size_t(kStages));
}
