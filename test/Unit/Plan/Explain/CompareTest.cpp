// What one plan spends and holds beyond another.
#include "dtc/Plan/Explain/Compare.h"

#include <gtest/gtest.h>

using namespace dtc::plan;
using dtc::sharding::StepKind;

namespace {

Prediction predicted(StepParts parts, int64_t activations) {
  Prediction result;
  result.stepSeconds = parts.total();
  result.parts = std::move(parts);
  result.memory.parameters = 100;
  result.memory.activations = activations;
  result.memoryCapacity = 250;
  return result;
}

} // namespace

TEST(Compare, DifferencesAreSigned) {
  Prediction a = predicted({8, 0, 0.5, 0, {{"dp", 0.5}, {"tp", 1}}}, 100),
             b = predicted({8, 1, 0.5, 2, {{"pp", 0.25}, {"tp", 0.25}}}, 180);
  Difference difference = differenceOf(b, 4, a, 4);
  EXPECT_DOUBLE_EQ(difference.seconds, 2);
  EXPECT_DOUBLE_EQ(difference.share, 0.2);
  EXPECT_DOUBLE_EQ(difference.parts.recompute, 1);
  EXPECT_DOUBLE_EQ(difference.parts.bubble, 2);
  std::vector<std::pair<std::string, double>> exposed = {{"dp", -0.5}, {"pp", 0.25}, {"tp", -0.75}};
  EXPECT_EQ(difference.parts.exposed, exposed);
  EXPECT_DOUBLE_EQ(difference.parts.total(), difference.seconds);
  EXPECT_EQ(difference.memory.total(), 80);
  EXPECT_DOUBLE_EQ(difference.shortBytes, 30);
  EXPECT_EQ(differenceOf(a, 4, b, 4).shortBytes, 0);
}

TEST(Compare, StepsOfOtherSamplesAreScaled) {
  Prediction a = predicted({8, 0, 2, 0, {}}, 0), b = predicted({16, 0, 2, 0, {}}, 0);
  Difference difference = differenceOf(b, 8, a, 4);
  EXPECT_DOUBLE_EQ(difference.seconds, -1);
  EXPECT_DOUBLE_EQ(difference.parts.compute, 0);
  EXPECT_DOUBLE_EQ(difference.parts.update, -1);
}

TEST(Compare, CollectivesByKindAndAxis) {
  auto use = [](StepKind kind, const char *axis, int64_t count, int64_t bytes, double seconds) {
    return CollectiveUse{kind, axis, count, bytes, seconds};
  };
  Prediction a, b;
  a.collectives = {use(StepKind::AllGather, "tp", 2, 10, 0.1), use(StepKind::AllReduce, "dp", 1, 8, 1),
                   use(StepKind::AllGather, "tp", 3, 20, 0.2)};
  b.collectives = {use(StepKind::AllReduce, "dp", 1, 8, 1), use(StepKind::AllGather, "dp", 1, 5, 0.5)};
  b.collectives.push_back(use(StepKind::AllGather, "dp", 4, 5, 0.5));
  b.collectives.back().send = true;
  std::vector<CollectivePair> pairs = differingCollectives(a, b);
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_EQ(pairs[0].a.axis, "tp");
  EXPECT_EQ(pairs[0].a.count, 5);
  EXPECT_DOUBLE_EQ(pairs[0].a.bytes, 80);
  EXPECT_NEAR(pairs[0].a.seconds, 0.3, 1e-12);
  EXPECT_EQ(pairs[0].b.count, 0);
  EXPECT_EQ(pairs[1].b.count, 1);
  EXPECT_FALSE(pairs[1].b.send);
  EXPECT_TRUE(pairs[2].a.send);
  EXPECT_EQ(pairs[2].b.count, 4);
}
