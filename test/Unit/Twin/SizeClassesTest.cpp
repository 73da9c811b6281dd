#include "SizeClasses.h"

#include "gtest/gtest.h"

using namespace dtc::twin;

namespace {

TEST(SizeClassesTest, KeepsMultiples) {
  SizeClasses classes;
  Atoms head = classes.create(128), odd = classes.create(100), few = classes.create(6);
  Atoms halves = classes.create(192), two = classes.create(2), half = classes.create(96);
  classes.unify(halves, Atoms{half.front(), two.front()});
  for (const Atoms &atoms : {head, odd, few, halves})
    classes.keepMultiple(atoms, 8);
  classes.solve();
  EXPECT_EQ(classes.sizeInTwin(head), 8);
  EXPECT_EQ(classes.sizeInTwin(odd), 4); // is no multiple
  EXPECT_EQ(classes.sizeInTwin(few), 4);
  EXPECT_EQ(classes.sizeInTwin(halves), 192); // its minor part can't be one
}

TEST(SizeClassesTest, KeepsAFewElementsARank) {
  SizeClasses classes;
  Atoms width = classes.create(16384), other = classes.create(16384);
  classes.unify(width, other);
  classes.split(other, {{16, 2}, {8, 2}});
  classes.solve();
  EXPECT_EQ(classes.sizeInTwin(width), 16);
}

TEST(SizeClassesTest, WhatARankHasOneOfStaysOne) {
  SizeClasses classes;
  Atoms heads = classes.create(8);
  classes.split(heads, {{8, 2}});
  classes.solve();
  EXPECT_EQ(classes.sizeInTwin(heads), 4); // as few as there may be at all
}

TEST(SizeClassesTest, MergedDimensionsAreTakenApart) {
  SizeClasses classes;
  Atoms merged = classes.create(8 * 4096), batch = classes.create(8),
        sequence = classes.create(4096);
  Atoms both = batch;
  both.append(sequence);
  classes.unify(merged, both);
  classes.split(batch, {{4, 2}});
  classes.solve();
  EXPECT_EQ(classes.sizeInTwin(batch), 4);
  EXPECT_EQ(classes.sizeInTwin(sequence), 4);
  EXPECT_EQ(classes.sizeInTwin(merged), 16);
}

TEST(SizeClassesTest, HalvesAreScaledWithTheWhole) {
  SizeClasses classes;
  Atoms head = classes.create(128), half = classes.create(64);
  classes.tie(head[0], half[0], 64);
  classes.solve();
  EXPECT_EQ(classes.sizeInTwin(head), 8);
  EXPECT_EQ(classes.sizeInTwin(half), 4);
  EXPECT_EQ(classes.scaled(head[0], 64), 4);
}

TEST(SizeClassesTest, SizesWithoutACommonRefinementStay) {
  SizeClasses classes;
  Atoms a = classes.create(12), b = classes.create(8);
  classes.unify(a, b);
  classes.solve();
  EXPECT_EQ(classes.sizeInTwin(a), 12);
  EXPECT_EQ(classes.sizeInTwin(b), 8);
}

TEST(SizeClassesTest, PartsOfWhatIsPinnedStay) {
  SizeClasses classes;
  Atoms merged = classes.create(96), outer = classes.create(12);
  classes.pin(merged);
  classes.unify(merged, outer);
  classes.solve();
  EXPECT_EQ(classes.sizeInTwin(merged), 96);
  EXPECT_EQ(classes.sizeInTwin(outer), 12);
}

TEST(SizeClassesTest, OffsetsInWhatIsPinnedStay) {
  SizeClasses classes;
  Atoms three = classes.create(3);
  classes.pin(three);
  classes.solve();
  EXPECT_EQ(classes.scaled(three[0], 2), 2);
}

TEST(SizeClassesTest, AnAxisAcrossFactorsPins) {
  SizeClasses classes;
  Atoms list = classes.create(6);
  list.append(classes.create(64));
  classes.split(list, {{4, 2}});
  classes.solve();
  EXPECT_EQ(classes.sizeInTwin(list), 6 * 64);
}

TEST(SizeClassesTest, LimitsOfCountsAreScaledWithWhatIsCounted) {
  SizeClasses classes;
  Atoms choices = classes.create(2), tokens = classes.create(32), places = classes.create(12);
  classes.pin(choices);
  classes.split(tokens, {{4, 2}});
  Atoms counted = choices;
  counted.append(tokens);
  classes.limit(counted, 12);
  classes.placeCounted(counted, places);
  classes.solve();
  EXPECT_EQ(classes.sizeInTwin(tokens), 8);
  EXPECT_EQ(classes.limitInTwin(counted, 12), 3);
  EXPECT_EQ(classes.limitInTwin(counted, 11), 2); // the last place
  EXPECT_EQ(classes.sizeInTwin(places), 4);       // as few as there may be
}

TEST(SizeClassesTest, WhatIsCountedIsAsLargeAsALimitNeeds) {
  SizeClasses classes;
  Atoms tokens = classes.create(2048), places = classes.create(80);
  classes.limit(tokens, 80);
  classes.placeCounted(tokens, places);
  classes.solve();
  EXPECT_EQ(classes.sizeInTwin(tokens), 52); // 4 of them would be below 1
  EXPECT_EQ(classes.limitInTwin(tokens, 80), 2);
}

TEST(SizeClassesTest, PlacesAreAsManyAsALimitTakes) {
  SizeClasses classes;
  Atoms tokens = classes.create(64), places = classes.create(32);
  classes.split(tokens, {{16, 4}});
  classes.limit(tokens, 32);
  classes.placeCounted(tokens, places);
  classes.solve();
  EXPECT_EQ(classes.sizeInTwin(tokens), 16);
  EXPECT_EQ(classes.limitInTwin(tokens, 32), 8);
  EXPECT_EQ(classes.sizeInTwin(places), 8);
}

TEST(SizeClassesTest, AxesThatDifferGoOnToDiffer) {
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(smallAxes(Sizes{9}), Sizes{3});
  EXPECT_EQ(smallAxes(Sizes{1, 8}), (Sizes{1, 2}));
  EXPECT_EQ(smallAxes(Sizes{4, 16, 32}), (Sizes{2, 4, 8}));
  EXPECT_EQ(smallAxes(Sizes{48, 64}), (Sizes{3, 4}));
  EXPECT_EQ(smallAxes(Sizes{4, 6}), (Sizes{2, 3}));
}

} // namespace
