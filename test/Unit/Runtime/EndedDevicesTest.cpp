#include "EndedDevices.h"

#include <gtest/gtest.h>

using namespace std::chrono_literals;

namespace dtc::rt {
namespace {

TEST(EndedDevices, NoneIsNamedBeforeOneHasEnded) { EXPECT_EQ(EndedDevices(3).namingOthers(), ""); }

TEST(EndedDevices, OthersThanThoseThatHaveEndedAreNamed) {
  EndedDevices devices(4);
  devices.add(2);
  EXPECT_EQ(devices.namingOthers(), ", because of the device of rank: 0, 1, 3");
  devices.add(0);
  devices.add(3);
  EXPECT_FALSE(devices.areAll());
  EXPECT_EQ(devices.namingOthers(), ", because of the device of rank: 1");
}

TEST(EndedDevices, NoneIsNamedOnceAllHaveEnded) {
  EndedDevices devices(2);
  devices.add(0);
  devices.add(1);
  EXPECT_TRUE(devices.areAll());
  EXPECT_EQ(devices.namingOthers(), "");
}

TEST(EndedDevices, TwoOfTheLongestStepsAreGivenToThem) {
  EXPECT_EQ(timeToEnd(5s), 1200ms);
  EXPECT_EQ(timeToEnd(800s), 80200ms);
}

} // namespace
} // namespace dtc::rt
