#include "dtc/Schedule/SumRounds.h"

#include <gtest/gtest.h>

using namespace dtc::schedule;

static std::vector<SumRound> roundsOf(std::vector<int64_t> stages, std::vector<int64_t> ranks,
                                      std::vector<int64_t> holders = {}) {
  return sumRounds(stages, ranks, holders);
}

TEST(SumRounds, OneWhereRanksDiffer) {
  EXPECT_EQ(roundsOf({2, 3, 4}, {2, 0, 1}), (std::vector<SumRound>{{{2, 0, 1}, {2, 3, 4}}}));
}

TEST(SumRounds, ARankThatComesAgainBeginsAnother) {
  EXPECT_EQ(roundsOf({0, 1, 2, 3}, {0, 1, 0, 1}),
            (std::vector<SumRound>{{{0, 1}, {0, 1}}, {{0, 1}, {2, 3}}}));
  EXPECT_EQ(roundsOf({0, 1, 2, 3}, {0, 1, 1, 0}),
            (std::vector<SumRound>{{{0, 1}, {0, 1}}, {{1, 0}, {2, 3}}}));
}

TEST(SumRounds, ARankAddsUpAlone) {
  EXPECT_EQ(roundsOf({0, 7}, {0, 0}), (std::vector<SumRound>{{{0}, {0, 7}}}));
  EXPECT_EQ(roundsOf({3, 4, 5}, {1, 1, 0}), (std::vector<SumRound>{{{1, 0}, {3, 4, 5}}}));
}

TEST(SumRounds, OthersThatNeedTheSumComeLast) {
  EXPECT_EQ(roundsOf({0, 3}, {0, 0}, {0, 1}), (std::vector<SumRound>{{{0, 1}, {0, 3}}}));
}

TEST(SumRounds, WhoHasNoMoreTermsPassesTheSumOn) {
  EXPECT_EQ(roundsOf({0, 1, 2}, {0, 1, 0}, {0, 1}),
            (std::vector<SumRound>{{{0, 1}, {0, 1}}, {{1, 0}, {2}}}));
  EXPECT_EQ(roundsOf({0, 1, 2, 3}, {0, 1, 2, 0}, {0, 1, 2, 3}),
            (std::vector<SumRound>{{{0, 1, 2}, {0, 1, 2}}, {{1, 0, 2, 3}, {3}}}));
}

TEST(SumRounds, WhoAddsUpSeveralTermsBeginsWithTheSum) {
  EXPECT_EQ(roundsOf({0, 1, 2, 3}, {0, 1, 1, 1}, {0, 1}),
            (std::vector<SumRound>{{{0, 1}, {0, 1}}, {{1, 0}, {2, 3}}}));
}
