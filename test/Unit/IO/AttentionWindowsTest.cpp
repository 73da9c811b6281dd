#include "dtc-io/AttentionWindows.h"

#include <gtest/gtest.h>

using namespace dtc::io;

TEST(AttentionWindows, SayWhatLayersSee) {
  EXPECT_EQ(textOf({{16, 16}, {16, 4}}), "4 of 16 keys; all of 16 keys");
  EXPECT_EQ(textOf({{16, 20}}), "all of 16 keys");
  EXPECT_EQ(textOf({}), "");
}

TEST(AttentionWindows, DifferWhereTheShorterSequenceShowsIt) {
  EXPECT_TRUE(areWindowsAlike("4 of 16 keys", "4 of 32 keys"));
  EXPECT_TRUE(areWindowsAlike("all of 16 keys", "20 of 32 keys"));
  EXPECT_TRUE(areWindowsAlike("all of 16 keys", "all of 32 keys; 16 of 32 keys"));
  EXPECT_TRUE(areWindowsAlike("4 of 16 keys; all of 16 keys", "20 of 32 keys; 4 of 32 keys"));
  EXPECT_FALSE(areWindowsAlike("4 of 16 keys", "8 of 16 keys"));
  EXPECT_FALSE(areWindowsAlike("4 of 16 keys", "all of 16 keys"));
  EXPECT_FALSE(areWindowsAlike("all of 16 keys", "15 of 32 keys"));
  EXPECT_FALSE(areWindowsAlike("4 of 16 keys", "4 of 16 keys; all of 16 keys"));
}

TEST(AttentionWindows, AreComparedAsTheyAreWhereTheySayAnythingElse) {
  for (const char *text : {"", "4 keys", "all of x keys", "4x of 16 keys", "4 of 16 keys more"}) {
    EXPECT_TRUE(areWindowsAlike(text, text)) << text;
    EXPECT_FALSE(areWindowsAlike(text, "4 of 16 keys")) << text;
  }
}
