// Clusters with several types of devices: stages have the rates and the memory of
// their own.
#include "Planner.h"
#include "Transformer.h"

#include "dtc/Plan/Plan/Blocks.h"
#include "dtc/Plan/Plan/Verify.h"

#include <cmath>
#include <limits>

using dtc::ErrorCategory;
using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

/// Two nodes of 4 H100, whose memories are of so many bytes.
Cluster unequal(double first, double second) {
  const std::string node = "node: dgx-h100, nodes: 1, devices_per_node: 4";
  Cluster on = clusterOf({node, node}, 50);
  on.device.memoryBytes = first;
  on.others[0].device.memoryBytes = second;
  return on;
}

constexpr double kPlenty = 1e12;
const char *const kTwoStages = "dp=4,tp=1,pp=2,cp=1,ep=1,zero=0,recompute=none,micro_batch=1,"
                               "schedule=1f1b,offload=none";

} // namespace

TEST(DeviceTypes, EveryStageHasTheMemoryOfItsOwn) {
  Problem problem = transformer({8, 1024, 16, 512, 32, 4096});
  SearchResult roomy = *found(problem, 8, kTwoStages, unequal(kPlenty, kPlenty));
  ASSERT_EQ(roomy.predicted.stages.size(), 2u);
  for (bool firstIsLarger : {true, false}) {
    auto needs = [&](size_t stage) { return double(roomy.predicted.stages[stage].peakMemory); };
    double most = std::max(needs(0), needs(1)), least = std::min(needs(0), needs(1));
    double large = 1.3 * most, small = 0.9 * least;
    Cluster on = firstIsLarger ? unequal(large, small) : unequal(small, large);
    SearchOutcome result = found(problem, 8, kTwoStages, on);
    ASSERT_TRUE(result) << result.error().message;
    const Prediction &predicted = result->predicted;
    EXPECT_TRUE(predicted.fits()) << firstIsLarger;
    EXPECT_TRUE(verify(result->problem, result->plan, on).empty());
    for (const StagePrediction &stage : predicted.stages) {
      EXPECT_EQ(stage.memoryCapacity, on.deviceAt(stage.devices[0]).memoryBytes);
      EXPECT_TRUE(stage.fits());
    }
    // More than the smaller device has, and more layers than fit there.
    const StagePrediction &full = predicted.stages[firstIsLarger ? 0 : 1];
    EXPECT_GT(double(full.peakMemory), small);
    EXPECT_FALSE(found(problem, 8, kTwoStages, unequal(small, small))->predicted.fits());
  }
}

/// Two stages, cut wherever blocks end, predicted in full.
TEST(DeviceTypes, NoOtherCutThatFitsIsFaster) {
  Problem problem = transformer({8, 1024, 16, 512, 32, 4096});
  SearchResult roomy = *found(problem, 8, kTwoStages, unequal(kPlenty, kPlenty));
  ProblemFacts facts(problem);
  std::vector<Block> blocks = findBlocks(problem, facts);
  ASSERT_GE(blocks.size(), 6u);
  int unevenly = 0;
  const MemoryUse &need = roomy.predicted.memory;
  auto room = [&](double share) { return double(need.reserved) + share * double(need.allocated()); };
  for (double share : {0.6, 0.8, 0.95, 1.1})
    for (bool firstIsLarger : {true, false}) {
      Cluster on = firstIsLarger ? unequal(room(1.6), room(share))
                                 : unequal(room(share), room(1.6));
      double best = std::numeric_limits<double>::infinity();
      for (const Block &block : blocks) {
        Plan plan = roomy.plan;
        plan.stages[0].lastOp = block.last;
        plan.stages[1].firstOp = block.last + 1;
        if (block.last >= plan.stages[1].lastOp)
          continue;
        Prediction predicted = predict(roomy.problem, plan, on);
        if (predicted.fits())
          best = std::min(best, predicted.stepSeconds);
      }
      ASSERT_TRUE(std::isfinite(best)) << share << " " << firstIsLarger;
      SearchOutcome result = found(problem, 8, kTwoStages, on);
      ASSERT_TRUE(result && result->predicted.fits()) << share << " " << firstIsLarger;
      EXPECT_LE(result->predicted.stepSeconds, best * 1.001) << share << " " << firstIsLarger;
      unevenly += result->plan.stages[0].lastOp != roomy.plan.stages[0].lastOp;
    }
  EXPECT_GE(unevenly, 3);
}

TEST(DeviceTypes, TheSmallestOfAStageCounts) {
  Problem problem = transformer({2, 1024, 16, 512, 32, 4096});
  Cluster on = unequal(80e9, 40e9);
  Prediction flat = found(problem, 8, "dp=8,zero=0,micro_batch=1,recompute=none", on)->predicted;
  ASSERT_EQ(flat.stages.size(), 1u);
  EXPECT_EQ(flat.memoryCapacity, 40e9);
  EXPECT_EQ(flat.stages[0].memoryCapacity, 40e9);
}

TEST(DeviceTypes, ShortagesAreThoseOfTheStageThatLacksMost) {
  Problem problem = transformer({8, 1024, 16, 512, 32, 4096});
  // The first has room for all; the second not even for the context.
  SearchOutcome none = found(problem, 8, "dp=4,pp=2,schedule=1f1b", unequal(kPlenty, 1e9));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().category, ErrorCategory::NoFit);
  EXPECT_NE(refusalText(none).find("on stage 1"), std::string::npos) << refusalText(none);
  EXPECT_NE(refusalText(none).find("there are 953.67 MiB"), std::string::npos) << refusalText(none);
}
