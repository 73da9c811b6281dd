// How many devices a problem needs.
#include "Transformer.h"

#include "dtc/Plan/Search/ClusterSize.h"

#include <algorithm>

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

/// Without what only training has.
Problem forwardOnly(Problem problem) {
  auto first = std::find_if(problem.ops.begin(), problem.ops.end(),
                            [](const Op &op) { return op.backward || op.kind == OpKind::Loss; });
  problem.ops.erase(first, problem.ops.end());
  ValueId logits = problem.ops.back().results[0];
  problem.values.resize(logits + 1);
  problem.results = {{logits, ResultKind::Output, "logits"}};
  problem.optimizer = {};
  for (Value &value : problem.values)
    value.trainable = false;
  return problem;
}

double stateBytes(const Problem &problem) {
  const OptimizerFacts &kept = problem.optimizer;
  return double(problem.parameterElements()) *
         double(2 + kept.states * kept.stateBytes + kept.masterBytes + kept.gradientBytes);
}

} // namespace

TEST(SizedPlan, FewestDevicesThatHoldTheState) {
  Problem problem = transformer({16, 4096, 32, 2048, 16, 50304}); // 3.5 billion parameters
  Cluster on = cluster("dgx-h100");
  for (double memory : {24e9, 40e9, 80e9}) {
    on.device.memoryBytes = memory;
    ClusterSizer finder(problem, on, {});
    std::optional<SizedPlan> fit = finder.smallest();
    ASSERT_TRUE(fit);
    int64_t count = fit->degrees.devices();
    EXPECT_TRUE(fit->fits());
    EXPECT_GE(double(count) * memory, stateBytes(problem));
    EXPECT_TRUE(count <= 8 ? (count & (count - 1)) == 0 : count % 8 == 0) << count;
    // On fewer, not even the whole search finds a plan.
    SearchOptions fewer;
    fewer.devices = count > 8 ? count - 8 : count / 2;
    fewer.executable = fewer.adviseOtherwise = false;
    fewer.samplesPerRank = 16;
    fewer.spec = *parseSpec("micro_batch=1,offload=none");
    if (fewer.devices > 0)
      EXPECT_FALSE(search(problem, on, fewer)) << memory;
  }
}

/// Between powers of two, parts of a node of 72.
TEST(SizedPlan, PartsOfLargeNodes) {
  Problem problem = transformer({16, 4096, 32, 2048, 16, 50304});
  Cluster on = cluster("gb200-nvl72");
  on.device.memoryBytes = 4.6e9;
  std::optional<SizedPlan> fit = ClusterSizer(problem, on, {}).smallest();
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->degrees.devices(), 24);
}

TEST(SizedPlan, NothingWhereTheClusterIsTooSmall) {
  Problem problem = transformer({16, 4096, 32, 2048, 16, 50304});
  Cluster on = cluster("dgx-h100");
  on.device.memoryBytes = 20e9;
  ClusterSizer limited(problem, on, {.mostDevices = 2});
  EXPECT_FALSE(limited.smallest());
  on.nodes = 1;
  on.device.memoryBytes = 4e9;
  ClusterSizer node(problem, on, {});
  EXPECT_EQ(node.mostDevices(), 8);
  EXPECT_FALSE(node.smallest());
}

TEST(SizedPlan, AWayIsWhatPinningItPredicts) {
  Problem problem = transformer({8, 4096, 32, 2048, 16, 50304});
  Cluster on = cluster("dgx-h100");
  ClusterSizer finder(problem, on, {.microbatches = 4});
  std::vector<SizedPlan> ways = finder.configurations(16);
  ASSERT_FALSE(ways.empty());
  bool hasPipeline = false;
  for (const SizedPlan &way : ways) {
    const Degrees &degrees = way.degrees;
    EXPECT_EQ(degrees.devices(), 16);
    EXPECT_EQ(degrees.microBatch, 1);
    EXPECT_EQ(degrees.numMicrobatches, 4);
    hasPipeline |= degrees.tp == 8 && degrees.pp == 2;
    if (degrees.tp > 1)
      continue; // one of several shardings, whichever fits
    SearchOptions pinned;
    pinned.devices = 16;
    pinned.executable = false;
    pinned.samplesPerRank = 4;
    pinned.spec = *parseSpec("tp=1,cp=1,ep=1,micro_batch=1,offload=none,dp=16,pp=1,zero=" +
                             std::to_string(degrees.zero) +
                             ",recompute=" + name(degrees.recompute));
    SearchOutcome found = search(problem, on, pinned);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(way.predicted.memory, found->predicted.memory);
  }
  EXPECT_TRUE(hasPipeline);
}

TEST(SizedPlan, StagesAndZeroHoldLess) {
  Problem problem = transformer({8, 4096, 32, 2048, 16, 50304});
  Cluster on = cluster("dgx-h100");
  ClusterSizer finder(problem, on, {});
  const MemoryUse *last = nullptr;
  std::vector<SizedPlan> ways = finder.configurations(8);
  for (const SizedPlan &way : ways) {
    if (way.degrees.tp > 1 || way.degrees.pp > 1 || way.degrees.recompute != Recompute::Full)
      continue;
    if (last) {
      EXPECT_LT(way.predicted.memory.total(), last->total()) << way.degrees.zero;
    }
    last = &way.predicted.memory;
  }
  ASSERT_TRUE(last);
}

/// Keys and values of every layer, split by heads over tp; of its own stages over pp.
TEST(SizedPlan, KeysAndValuesOfAllLayers) {
  int64_t layers = 8, width = 4096, sequence = 2048;
  Problem problem = forwardOnly(transformer({layers, width, 32, sequence, 2, 50304}));
  Cluster on = cluster("dgx-h100");
  int64_t whole = layers * 2 * sequence * width * 2; // of one sample, in bf16
  ClusterSizer finder(problem, on, {});
  std::optional<SizedPlan> one = finder.smallest();
  ASSERT_TRUE(one);
  EXPECT_EQ(one->degrees.devices(), 1);
  EXPECT_EQ(one->cacheBytes, whole);
  EXPECT_EQ(one->predicted.memory.gradients + one->predicted.memory.optimizer, 0);
  for (const SizedPlan &way : finder.configurations(2)) {
    EXPECT_EQ(way.degrees.dp, 1);
    // The stage without the head has more layers.
    EXPECT_GE(way.cacheBytes, whole / 2);
    EXPECT_LT(way.cacheBytes, way.degrees.tp == 2 ? whole / 2 + 1 : whole);
  }
  // What holds the weights and no more doesn't hold the keys and values, too.
  on.device.memoryBytes = double(one->total()) - 1;
  EXPECT_EQ(ClusterSizer(problem, on, {}).smallest()->degrees.devices(), 2);
}
