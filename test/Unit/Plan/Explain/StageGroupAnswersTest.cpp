// What is told of plans whose stages have meshes of their own, and where they are chosen.
#include "Planner.h"
#include "Search/Candidates.h"
#include "StageGroups.h"

#include "dtc/Plan/Explain/ShardingExplanation.h"
#include "dtc/Plan/Plan/Verify.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

//===-- why a tensor or op is sharded so -----------------------------------===//

/// Each is explained in the meshes of the stages that have it, and only their ways change.
TEST(StageGroups, SubjectsAreThoseOfTheirMeshes) {
  Problem problem = transformer({12, 2048, 16, 1024, 32, 8192});
  Cluster on = mixed(1, 1);
  Planner planner(problem, on, 8);
  Estimate estimate;
  auto whole =
      planner.carriedOut(grouped({{1, 2, 2, false, 2}, {1, 1, 4, false, 4}}, 32), estimate);
  ASSERT_TRUE(whole);
  Result<Problem> planned = unfoldPlan(planner.shardings, *whole);
  ASSERT_TRUE(planned);
  auto explained = [&](const std::string &name) {
    return explainSharding(*planned, whole->plan, whole->predicted, on, whole->solver, name);
  };
  for (auto [name, group] : {std::pair("h.0.up", size_t(0)), {"h.11.up", size_t(1)}}) {
    auto found = explained(name);
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_EQ(found->size(), 1u);
    const ShardingExplanation &subject = found->front();
    EXPECT_EQ(subject.group, group);
    const ModelSharding &sharding = shardingOf(whole->plan, group);
    ValueId value = 0;
    while (planned->values[value].name != name)
      ++value;
    EXPECT_EQ(subject.ways[0].sharding, sharding.arguments.at(value).str(sharding.mesh));
    // Whole on all ranks and split along the other dimension.
    ASSERT_EQ(subject.ways.size(), 3u);
    for (size_t i = 1; i < 3; ++i) {
      ASSERT_TRUE(subject.ways[i].difference) << subject.ways[i].refusal;
      const Difference &difference = *subject.ways[i].difference;
      EXPECT_NE(difference.seconds, 0);
      EXPECT_NEAR(difference.parts.total(), difference.seconds,
                  1e-9 * whole->predicted.stepSeconds);
    }
  }
  // The data are read by the first stage, targets by the last.
  for (auto [name, group] : {std::pair("x", size_t(0)), {"target", size_t(1)}}) {
    auto found = explained(name);
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_EQ(found->size(), 1u) << name;
    EXPECT_EQ(found->front().group, group) << name;
  }
  // Of an op that both groups lay out, those who run it are asked.
  const Stage &last = whole->plan.stages.back();
  const Op &op = planned->ops[last.lastOp];
  auto found = explained(op.location);
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().group, 1u);
  EXPECT_GT(found->front().ways.size(), 1u);
}

//===-- where they pay ----------------------------------------------------===//

/// The H100 have room for layers as they are; the A10G have to share out the head.
TEST(StageGroups, AreChosenWhereTheyPay) {
  Problem problem = transformer({12, 8192, 64, 4096, 32, 50304});
  Cluster on = clusterOf({"node: dgx-h100, nodes: 1", "node: a10g, devices_per_node: 8, nodes: 1"});
  SearchOptions options = optionsOf(16);
  auto result = search(problem, on, options);
  ASSERT_TRUE(result) << result.error().message;
  const Degrees &chosen = result->plan.degrees;
  ASSERT_EQ(chosen.groups.size(), 2u) << summary(chosen);
  EXPECT_LT(chosen.groups[0].tp, chosen.groups[1].tp) << summary(chosen);
  EXPECT_TRUE(result->predicted.fits());
  for (const Violation &violation : verify(result->problem, result->plan, on))
    ADD_FAILURE() << violation.message;
  options.unequalMeshes = false;
  auto same = search(problem, on, options);
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_TRUE(same->plan.degrees.groups.empty());
  EXPECT_LT(result->predicted.stepSeconds, 0.95 * same->predicted.stepSeconds);
  // The same groups again, as `--save-plan` has them.
  SearchOptions again = optionsOf(16);
  again.spec = pinned(chosen, {});
  auto repeated = search(problem, on, again);
  ASSERT_TRUE(repeated) << repeated.error().message;
  EXPECT_EQ(repeated->plan, result->plan);
  // Pinned degrees of a uniform mesh leave one mesh.
  for (const char *spec : {"tp=2", "dp=4"}) {
    auto uniform = found(problem, 16, spec, on);
    ASSERT_TRUE(uniform) << spec << ": " << uniform.error().message;
    EXPECT_TRUE(uniform->plan.degrees.groups.empty()) << spec;
  }
}

TEST(StageGroups, DevicesThatAreAlikeAreOne) {
  EXPECT_EQ(alikeDevices(cluster("dgx-h100"), 64), (std::vector<int64_t>{64}));
  EXPECT_EQ(alikeDevices(mixed(2, 1), 12), (std::vector<int64_t>{8, 4}));
  EXPECT_EQ(alikeDevices(mixed(2, 1), 8), (std::vector<int64_t>{8}));
  Cluster on = clusterOf(
      {"node: dgx-h100, nodes: 1", "node: dgx-h100, nodes: 2", "node: dgx-a100, nodes: 1"});
  EXPECT_EQ(alikeDevices(on, 32), (std::vector<int64_t>{24, 8}));
}
