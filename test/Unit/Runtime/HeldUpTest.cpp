#include "HeldUp.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace dtc::rt {
namespace {

TEST(HeldUp, TimesOfAThreadAreRead) {
  // Its name has blanks and a parenthesis.
  std::optional<ThreadTime> time =
      parseThreadTime("17 (a) R b) D 1 2 3 4 5 6 7 8 9 10 30 12 13 14", /*tick=*/10);
  ASSERT_TRUE(time);
  EXPECT_EQ(time->state, 'D');
  EXPECT_EQ(time->processor, 420);
  EXPECT_FALSE(parseThreadTime("17 (a) R 1 2 3", 10));
  EXPECT_FALSE(parseThreadTime("", 10));
}

TEST(HeldUp, AThreadIsThatWantsAProcessorAndHasNone) {
  const ThreadTimes before = {{1, {'R', 500}}, {2, {'R', 500}}, {3, {'S', 500}}};
  const ThreadTimes after = {{1, {'R', 590}}, {2, {'R', 610}}, {3, {'S', 500}}};
  EXPECT_EQ(heldUpThreads(before, after, 1000), std::set<int>{1});
}

TEST(HeldUp, AThreadIsThatWaitsForADisk) {
  EXPECT_EQ(heldUpThreads({{1, {'R', 0}}}, {{1, {'D', 900}}}, 1000), std::set<int>{1});
}

TEST(HeldUp, AThreadMayBeWhoseTimeIsNotKnown) {
  EXPECT_EQ(heldUpThreads({}, {{1, {'R', 900}}}, 1000), std::set<int>{1});
  EXPECT_EQ(heldUpThreads({}, {{1, {'S', 900}}}, 1000), std::set<int>());
}

TEST(HeldUp, AProcessIsIdleWhoseThreadsOnlyWakeForAMoment) {
  const ThreadTimes before = {{1, {'S', 500}}, {2, {'S', 500}}};
  EXPECT_TRUE(areIdle(before, {{1, {'S', 510}}, {2, {'S', 510}}}, 1000));
  EXPECT_FALSE(areIdle(before, {{1, {'S', 510}}, {2, {'S', 520}}}, 1000)) << "it computes";
  EXPECT_FALSE(areIdle(before, {{1, {'S', 500}}, {2, {'S', 500}}, {3, {'S', 30}}}, 1000))
      << "a new thread has computed";
  EXPECT_FALSE(areIdle(before, {{1, {'S', 500}}, {2, {'D', 500}}}, 1000)) << "it reads";
}

/// On a busy machine the thread is held up before it comes to its sleep.
TEST(HeldUp, ThreadsThatSleepAreNot) {
  HeldUp heldUp;
  heldUp.look();
  std::promise<void> end;
  std::thread sleeps([&] { end.get_future().wait(); });
  bool isHeldUp = true;
  for (int look = 0; look < 300 && isHeldUp; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    isHeldUp = heldUp.look().isHeldUp;
  }
  end.set_value();
  sleeps.join();
  EXPECT_FALSE(isHeldUp);
}

} // namespace
} // namespace dtc::rt
