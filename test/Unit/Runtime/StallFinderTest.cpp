#include "StallFinder.h"

#include <gtest/gtest.h>

using namespace std::chrono_literals;

namespace dtc::rt {
namespace {

class StallFinderTest : public testing::Test {
protected:
  /// Beats of two ranks until a stall is found, at most `most`; 0: none is found.
  int beatsUntilFound(const RankBeat &first, const RankBeat &second, int most) {
    for (int beat = 1; beat <= most; ++beat) {
      const RankBeat ranks[] = {first, second};
      found = finder.find(ranks);
      if (found)
        return beat;
    }
    return 0;
  }
  StallFinder finder;
  std::optional<std::chrono::seconds> found;
};

TEST_F(StallFinderTest, TheFirstBeatOfAStepDoesNotCount) {
  EXPECT_EQ(beatsUntilFound({{7, 6s}}, {{8, 3s}}, 100), 7);
  EXPECT_EQ(found, 6s) << "the patience of the most patient rank";
}

TEST_F(StallFinderTest, AnotherStepBeginsAnew) {
  EXPECT_EQ(beatsUntilFound({{7, 6s}}, {{7, 6s}}, 6), 0);
  EXPECT_EQ(beatsUntilFound({{7, 6s}}, {{8, 6s}}, 6), 0);
  EXPECT_EQ(beatsUntilFound({{7, 6s}}, {{8, 6s}}, 100), 1);
}

TEST_F(StallFinderTest, WhoDoesSomethingElseMayTakeAnyTime) {
  EXPECT_EQ(beatsUntilFound({{7, 6s}}, {{0, 6s}}, 1000), 0);
  EXPECT_EQ(beatsUntilFound({{7, 6s}}, {{7, 6s}}, 100), 7);
}

TEST_F(StallFinderTest, RanksThatAreHeldUpHaveAMinute) {
  EXPECT_EQ(beatsUntilFound({{7, 6s}}, {{7, 6s}, /*isHeldUp=*/true}, 1000), 61);
  EXPECT_EQ(found, 60s);
}

TEST_F(StallFinderTest, RanksThatAreHeldUpHaveTheirPatienceWhereThatIsLonger) {
  EXPECT_EQ(beatsUntilFound({{7, 80s}}, {{7, 80s}, /*isHeldUp=*/true}, 1000), 81);
  EXPECT_EQ(found, 80s);
}

TEST_F(StallFinderTest, SecondsInWhichNoneIsHeldUpAreAddedUp) {
  EXPECT_EQ(beatsUntilFound({{7, 6s}}, {{7, 6s}}, 4), 0);
  EXPECT_EQ(beatsUntilFound({{7, 6s}, /*isHeldUp=*/true}, {{7, 6s}}, 30), 0);
  EXPECT_EQ(beatsUntilFound({{7, 6s}}, {{7, 6s}}, 100), 3);
}

/// Of a step that may take long.
RankBeat idleBeat(bool computesHere = true) {
  return {{7, 1000s, computesHere}, /*isHeldUp=*/false, /*isIdle=*/true};
}

TEST_F(StallFinderTest, RanksOfWhichNoneComputesAnythingHaveFiveSeconds) {
  EXPECT_EQ(beatsUntilFound(idleBeat(), idleBeat(), 100), 6);
  EXPECT_EQ(found, 5s);
}

TEST_F(StallFinderTest, OneThatComputesMayBeWhatTheOthersWaitFor) {
  EXPECT_EQ(beatsUntilFound(idleBeat(), {{7, 1000s, true}}, 900), 0);
}

TEST_F(StallFinderTest, ADeviceMayBeAtWorkThoughNoThreadIs) {
  EXPECT_EQ(beatsUntilFound(idleBeat(), idleBeat(/*computesHere=*/false), 900), 0);
}

TEST_F(StallFinderTest, OnlySecondsThatFollowEachOtherAreIdle) {
  RankBeat heldUp = idleBeat();
  heldUp.isHeldUp = true;
  EXPECT_EQ(beatsUntilFound(idleBeat(), idleBeat(), 5), 0);
  EXPECT_EQ(beatsUntilFound(idleBeat(), heldUp, 1), 0);
  EXPECT_EQ(beatsUntilFound(idleBeat(), idleBeat(), 100), 5);
}

} // namespace
} // namespace dtc::rt
