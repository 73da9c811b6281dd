// In what parts states pass through the device.
#include "dtc/Schedule/PassingParts.h"

#include <gtest/gtest.h>

using dtc::schedule::passingElements;

TEST(PassingPartsTest, StatesOfAPartTakeAtMostItsBytes) {
  EXPECT_EQ(passingElements(8), 8 << 20);
  EXPECT_EQ(passingElements(12), 5592064); // a multiple of 1024, of at most 5592405
  EXPECT_EQ(passingElements(8, 20000), 2048);
}

TEST(PassingPartsTest, SmallPartsHaveAnyNumberOfElementsButNone) {
  EXPECT_EQ(passingElements(12, 480), 40);
  EXPECT_EQ(passingElements(12, 1), 1);
}
