#include "StepWatch.h"

#include <gtest/gtest.h>

using namespace std::chrono_literals;

namespace dtc::rt {

TEST(StepWatch, AStepMayTakeAMinuteOrTwentyTimesTheLongest) {
  EXPECT_EQ(patienceAfter(0.001), 60s);
  EXPECT_EQ(patienceAfter(3), 60s);
  EXPECT_EQ(patienceAfter(40), 800s);
  EXPECT_EQ(patienceAfter(1e30), 10000000s);
}

} // namespace dtc::rt
