#include "WaitChain.h"

#include <gtest/gtest.h>

#include <map>

namespace dtc::rt {
namespace {

int lastFrom(int rank, const std::map<int, int> &waits) {
  return lastOfChain(rank, [&](int of) {
    auto next = waits.find(of);
    return next == waits.end() ? std::nullopt : std::optional(next->second);
  });
}

TEST(WaitChainTest, WhoWaitsForNobodyIsTheLast) {
  EXPECT_EQ(lastFrom(1, {{0, 1}, {1, 2}}), 2);
  EXPECT_EQ(lastFrom(2, {{0, 1}, {1, 2}}), 2);
}

TEST(WaitChainTest, ACircleEndsAtOneOfIt) {
  EXPECT_EQ(lastFrom(0, {{0, 1}, {1, 2}, {2, 1}}), 1);
  EXPECT_EQ(lastFrom(1, {{1, 2}, {2, 1}}), 1);
}

TEST(WaitChainTest, OnlyAnotherRankIsNamed) {
  EXPECT_EQ(namingLast(1, 1), "");
  EXPECT_EQ(namingLast(1, 2), ", which waits for rank: 2");
}

} // namespace
} // namespace dtc::rt
