// What those who train large models know, found by the search from problem data alone.
#include "Planners/Candidates.h"

#include "Transformer.h"

#include "dtc/Plan/Verify.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

Result<SearchResult> found(const Problem &problem, int64_t devices, const std::string &spec,
                           const Cluster &on) {
  SearchOptions options;
  options.devices = devices;
  options.spec = *parseSpec(spec);
  options.executable = false;
  return search(problem, on, options);
}

SearchResult best(const Problem &problem, int64_t devices, const std::string &spec,
                  const Cluster &on) {
  Result<SearchResult> result = found(problem, devices, spec, on);
  if (!result) {
    ADD_FAILURE() << spec << ": " << result.error().message;
    return {};
  }
  for (const Violation &violation : verify(result->problem, result->plan, on))
    ADD_FAILURE() << spec << ": " << violation.message;
  return *result;
}

/// H100 nodes of 8 with a network of so many GB/s a device.
Cluster nodes(double gigabytes) {
  Cluster on = cluster("dgx-h100");
  for (LinkLevel &level : on.levels)
    if (level.size == 0 || level.size > on.devicesPerNode)
      level.bandwidth = level.alone = gigabytes * 1e9;
  return on;
}

} // namespace

TEST(ZeroGroups, FillNodesAndPowersOfThem) {
  Cluster on = cluster("dgx-h100");
  EXPECT_EQ(zeroGroups({.dp = 64, .tp = 2}, on), (std::vector<int64_t>{32, 16, 8, 4}));
  EXPECT_EQ(zeroGroups({.dp = 24}, on), (std::vector<int64_t>{8}));
  EXPECT_EQ(zeroGroups({.dp = 8}, on), (std::vector<int64_t>{}));
  EXPECT_EQ(zeroGroups({.dp = 4, .tp = 8}, on), (std::vector<int64_t>{2}));
  on.levels.insert(on.levels.begin() + 1, {"leaf", 24, 50e9, 5e-6});
  EXPECT_EQ(zeroGroups({.dp = 48}, on), (std::vector<int64_t>{24, 16, 8}));
}

TEST(Rediscovery, ShardsWithinTheNodeWhereTheNetworkIsSlow) {
  Problem problem = transformer(gpt7b(64));
  std::string rest = "dp=32,tp=1,pp=1,cp=1,ep=1,zero=3,micro_batch=1,recompute=full";
  SearchResult slow = best(problem, 32, rest, nodes(5)),
               everywhere = best(problem, 32, rest + ",zero_group=32", nodes(5));
  EXPECT_EQ(slow.plan.degrees.zeroGroup, 8);
  EXPECT_EQ(slow.plan.mesh.axes[1].size, 8) << "groups are neighbours";
  EXPECT_LT(slow.predicted.stepSeconds, 0.8 * everywhere.predicted.stepSeconds);
  EXPECT_GT(slow.predicted.memory.total(), everywhere.predicted.memory.total());
  // Larger groups where one node can't hold the model.
  Cluster small = nodes(5);
  small.device.memoryBytes = double(slow.predicted.memory.total()) - 1e9;
  SearchResult larger = best(problem, 32, rest, small);
  EXPECT_NE(larger.plan.degrees.zeroGroup, 8);
  EXPECT_TRUE(larger.predicted.fits());
}

TEST(Rediscovery, RefusesGroupsThatShareNothing) {
  Result<SearchResult> result = found(transformer({2, 512, 8, 128, 16, 1024}), 4,
                                      "dp=4,zero=3,zero_group=1", cluster("dgx-h100"));
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("zero_group=1 leaves nothing to share: zero=3"),
            std::string::npos) << result.error().message;
}
