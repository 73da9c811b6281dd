#include "dtc-io/ModelTraits.h"

#include <gtest/gtest.h>

using namespace dtc::io;

static bool areAlike(const char *name, const std::string &one, const std::string &other) {
  EXPECT_EQ(areTraitsAlike(name, one, other), areTraitsAlike(name, other, one));
  return areTraitsAlike(name, one, other);
}

TEST(ModelTraits, AreAlikeWhereConstantsAreRounded) {
  EXPECT_TRUE(areAlike(kScaleTrait, "0.125", "0.12499"));
  EXPECT_TRUE(areAlike(kScaleTrait, "0.0883883", "0.0883789")); // in bf16
  EXPECT_FALSE(areAlike(kScaleTrait, "0.125", "0.120"));
  EXPECT_FALSE(areAlike(kAnglesTrait, numbersText({0.1, 0.2}), numbersText({0.1, 0.3})));
  EXPECT_FALSE(areAlike("heads", "4 of 16", "4 of 16.0"));
}

TEST(ModelTraits, OfSomeLayersAreThoseOfAll) {
  EXPECT_TRUE(areAlike(kAnglesTrait, numbersText({0.1, 0.2}), numbersText({0.2})));
  EXPECT_FALSE(areAlike(kAnglesTrait, numbersText({0.1, 0.2}), numbersText({0.3})));
}

TEST(ModelTraits, AnglesAreComparedOfInputsOfTheSameSizes) {
  const std::string own = anglesText({0.1}, "16");
  EXPECT_EQ(own, "0.1 in inputs of 16");
  EXPECT_FALSE(areAlike(kAnglesTrait, own, anglesText({0.05}, "16")));
  EXPECT_TRUE(areAlike(kAnglesTrait, own, anglesText({0.05}, "32"))); // parts of the length
}

TEST(ModelTraits, MasksOfSomeLayersAreThoseOfAll) {
  EXPECT_TRUE(areAlike(kMasksTrait, "causal; none", "causal"));
  EXPECT_TRUE(areAlike(kMasksTrait, "causal; none", "none"));
  EXPECT_FALSE(areAlike(kMasksTrait, "causal", "none"));
}

TEST(ModelTraits, ResultsDifferWhereShapesAreTheSame) {
  const std::string own = resultsText("input 1x4", {1, -2, 0.001});
  EXPECT_EQ(own, "input 1x4: 1 -2 0.001");
  EXPECT_TRUE(areAlike(kResultsTrait, own, "input 1x4: 1 -2.0001 0.0011"));
  EXPECT_FALSE(areAlike(kResultsTrait, own, "input 1x4: 1 -2.001 0.001"));
  EXPECT_FALSE(areAlike(kResultsTrait, own, "input 1x4: 1 -2"));
  EXPECT_TRUE(areAlike(kResultsTrait, own, "input 1x8: 5 -2 0.001"));
}

TEST(ModelTraits, ResultsOfHalvesAreAlikeWhereTheirConstantsAreRounded) {
  const auto areHalvesAlike = [](const std::string &type, const std::string &second) {
    return areAlike(kResultsTrait, "weights " + type + ": 1 0.5",
                    "weights " + type + ": 1 " + second);
  };
  EXPECT_TRUE(areHalvesAlike("bf16", "0.51"));
  EXPECT_TRUE(areHalvesAlike("bf16 and f32", "0.51"));
  EXPECT_FALSE(areHalvesAlike("bf16", "0.53"));
  EXPECT_TRUE(areHalvesAlike("f16", "0.502"));
  EXPECT_FALSE(areHalvesAlike("f16", "0.51"));
  EXPECT_FALSE(areHalvesAlike("f32", "0.502"));
}

static bool areOtherResultsSeen(const std::string &one, const std::string &other) {
  EXPECT_TRUE(areAlike(kResultsTrait, one + ": 1", other + ": 1"));
  return !areAlike(kResultsTrait, one + ": 1", other + ": 2");
}

TEST(ModelTraits, ResultsOfFewPositionsAreThoseOfMore) {
  const std::string few = "weights f32, input 1x4 of 8x16 below 64, output 1x4x4";
  EXPECT_TRUE(areOtherResultsSeen(few, "weights f32, input 1x4 of 2x32 below 64, output 1x4x4"));
  EXPECT_TRUE(areOtherResultsSeen(few, "weights f32, input 1x32 of 2x32 below 64, output 1x4x4"));
  EXPECT_FALSE(areOtherResultsSeen(few, "weights f32, input 1x4 of 8x16 below 65, output 1x4x4"));
  EXPECT_FALSE(areOtherResultsSeen(few, "weights bf16, input 1x4 of 8x16 below 64, output 1x4x4"));
  EXPECT_FALSE(areOtherResultsSeen(few, "weights f32, input 1x4 of 8x16 below 64, output 1x4"));
  EXPECT_FALSE(areOtherResultsSeen(few, few + ", output 1"));
  EXPECT_FALSE(areOtherResultsSeen("input 1x16 of 8x16", "input 1x32 of 8x32"));
  EXPECT_FALSE(areOtherResultsSeen("input 8x4 of 8x16", "input 16x4 of 16x16"));
}

TEST(ModelTraits, KeepSomeOfManyResults) {
  EXPECT_EQ(resultsText("x", std::vector<double>(33, 1)), "x: 1 1 1 1 1 1 1 1 1 1 1");
}
