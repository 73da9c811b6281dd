#include "StepWatch.h"
#include "RecordedPulses.h"

#include "dtc-rt/Threads/ThreadCommunicator.h"

#include <gtest/gtest.h>

using namespace std::chrono_literals;

namespace dtc::rt {
namespace {

std::optional<std::chrono::seconds> patienceAfter(std::initializer_list<double> seconds) {
  StepLengths lengths;
  for (double length : seconds)
    lengths.add(length);
  return lengths.patience();
}

TEST(StepWatch, TheFirstStepsSayLittleAboutLaterOnes) {
  EXPECT_EQ(patienceAfter({}), std::nullopt);
  EXPECT_EQ(patienceAfter({0.001}), 60s);
  EXPECT_EQ(patienceAfter({40}), 800s);
  EXPECT_EQ(patienceAfter({9, 2}), 180s);
}

TEST(StepWatch, AStepMayTakeFiveSecondsOrTwentyTimesTheLongest) {
  EXPECT_EQ(patienceAfter({0.001, 0.001}), 5s);
  EXPECT_EQ(patienceAfter({9, 2, 0.2}), 5s) << "what is prepared doesn't count";
  EXPECT_EQ(patienceAfter({9, 2, 0.3, 0.2, 0.2, 1.5, 0.2}), 30s) << "ranks share processors";
  EXPECT_EQ(patienceAfter({40, 40, 40, 40, 40}), 800s);
  EXPECT_EQ(patienceAfter({1, 1, 1e30, 1, 1}), 10000000s);
}

class WatchedRankTest : public testing::Test {
protected:
  ThreadWorld world{1, 20s};
  test::RecordedPulses pulses{world.communicator(0)};
  StepWatch watch{pulses};
};

TEST_F(WatchedRankTest, WhatIsSavedIsNoPartOfAStep) {
  watch.begin(/*computesHere=*/false);
  watch.endStep(0.1);
  EXPECT_EQ(pulses.patiences.back(), 60s);
  watch.endStep(0.1);
  watch.leaveOut(30);
  watch.endStep(30.1);
  EXPECT_EQ(pulses.patiences.back(), 5s);
  watch.endStep(30.1);
  EXPECT_EQ(pulses.patiences.back(), 602s);
}

TEST_F(WatchedRankTest, TheFirstStepOfADeviceMayTakeAnyTime) {
  watch.begin(/*computesHere=*/false);
  watch.endStep(0.1);
  EXPECT_EQ(pulses.steps, (std::vector<int64_t>{0, 2}));
}

TEST_F(WatchedRankTest, TheFirstStepOfARankThatComputesByItselfIsWatched) {
  watch.begin(/*computesHere=*/true);
  EXPECT_EQ(pulses.steps, std::vector<int64_t>{1});
  EXPECT_EQ(pulses.patiences.back(), kMostPatience);
}

TEST_F(WatchedRankTest, BatchesOfAnEvaluationAreLikeSteps) {
  watch.begin(/*computesHere=*/false);
  for (int step = 0; step < 3; ++step)
    watch.endStep(0.4);
  watch.endBatch();
  watch.endBatch();
  EXPECT_EQ(pulses.steps, (std::vector<int64_t>{0, 2, 3, 4, 5, 6}));
  EXPECT_EQ(pulses.patiences.back(), 8s);
}

TEST_F(WatchedRankTest, NothingIsSaidBeforeTheFirstStepBegins) {
  {
    const StepWatch::Pause reading(watch);
  }
  watch.endStep(0.1);
  watch.endBatch();
  EXPECT_EQ(pulses.steps, std::vector<int64_t>());
}

} // namespace
} // namespace dtc::rt
