// Parameters by layer.
#include "Layers.h"

#include "Transformer.h"

namespace dtc::report {

using plan::Problem;
using plan::testing::Transformer;

static std::vector<LayerGroup> fold(const Problem &problem, const plan::Plan &plan) {
  return foldLayers(problem, plan::ProblemFacts(problem), plan);
}

static plan::Plan replicated(const Problem &problem) {
  plan::Plan plan;
  plan.mesh.axes = {{"dp", "dp", 2}, {"tp", "tp", 2}};
  for (plan::ValueId value = 0; value < problem.arguments; ++value)
    plan.arguments[value] =
        sharding::TensorSharding::replicated(problem.values[value].shape.size());
  return plan;
}

// Its blocks begin at the MLP, where as few bytes cross: half a layer is left at
// each end.
TEST(Layers, AlikeLayersAreOneGroup) {
  Problem problem = Transformer({.layers = 5}).build();
  auto groups = fold(problem, replicated(problem));
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].title, "Before the layers");
  EXPECT_EQ(groups[0].rows[0].name, "h.0.q");
  EXPECT_EQ(groups[1].first, 0);
  EXPECT_EQ(groups[1].last, 3);
  EXPECT_EQ(groups[1].title, "Layers 0\u20133, 4 alike");
  ASSERT_EQ(groups[1].rows.size(), 6u);
  EXPECT_EQ(groups[1].rows[0].name, "h.*.up");
  EXPECT_EQ(groups[1].rows[0].count, 4);
  EXPECT_EQ(groups[2].title, "After the layers");
  EXPECT_EQ(groups[2].rows[2].name, "head");
}

TEST(Layers, AnotherShardingIsAnotherGroup) {
  Problem problem = Transformer({.layers = 6}).build();
  plan::Plan plan = replicated(problem);
  for (auto &[value, sharding] : plan.arguments)
    if (problem.values[value].name == "h.2.up")
      sharding.dims[1] = {1};
  auto groups = fold(problem, plan);
  ASSERT_EQ(groups.size(), 5u);
  EXPECT_EQ(groups[1].title, "Layers 0\u20131, 2 alike");
  EXPECT_EQ(groups[2].title, "Layer 2");
  EXPECT_EQ(groups[2].rows[0].name, "h.2.up");
  EXPECT_EQ(groups[3].first, 3);
}

TEST(Layers, NamesThatShareNothingAreNotMadeUp) {
  Problem problem = Transformer({.layers = 4}).build();
  for (plan::ValueId value = 0; value < problem.arguments; ++value)
    problem.values[value].name = "MatMul_" + std::to_string(17 * value);
  auto groups = fold(problem, replicated(problem));
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_FALSE(groups[1].rows[0].isFamily);
  EXPECT_EQ(groups[1].rows[0].name, problem.values[groups[1].rows[0].value].name);
  EXPECT_EQ(groups[1].rows[0].count, 3);
}

TEST(Layers, StorageIsTheParametersOwn) {
  Problem problem = Transformer({.layers = 3}).build();
  plan::Plan plan = replicated(problem);
  for (const char *name : {"h.0.up", "h.1.up"})
    plan.storage.push_back({name, {}, {0}, {}, {}});
  auto groups = fold(problem, plan);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[1].rows[0].storage, (sharding::AxisList{0}));
  EXPECT_TRUE(groups[1].rows[1].storage.empty());
}

} // namespace dtc::report
