// What stages hold for the microbatches that are in flight at once.
#include "FoundStages.h"
#include "Transformer.h"

using namespace dtc::plan;
using namespace dtc::plan::testing;

namespace {

TEST(HeldBytes, AMicrobatchAddsItsSlotAndWhatWaitsForTheGradientsOfWeights) {
  Cluster on = cluster("dgx-h100");
  on.software = Software();
  FoundStages of(best(load("gpt"), 4, "dp=1,tp=1,pp=4,schedule=zb", on), on);
  const StageCosts &costs = of.stages.costs();
  ASSERT_TRUE(costs.placesCalls());
  int64_t waiting = 0;
  for (const StageRun &run : of.stages.getStages()) {
    EXPECT_EQ(costs.slotBytes(run, false), costs.savedBytes(run));
    waiting += costs.waitingBytes(run);
    EXPECT_EQ(costs.slotBytes(run, true), costs.savedBytes(run) + costs.waitingBytes(run));
    for (bool splits : {false, true})
      EXPECT_EQ(costs.heldBytes(run, {5, splits}) - costs.heldBytes(run, {2, splits}),
                3 * costs.slotBytes(run, splits));
  }
  EXPECT_GT(waiting, 0);
}

/// Other programs free what only gradients of data need. What blocks compute again for gradients of
/// weights, they hold until these.
TEST(HeldBytes, OtherProgramsHoldWhatGradientsOfWeightsReadBetweenTheirCalls) {
  Cluster on = cluster("dgx-h100");
  on.software = Software();
  on.software.compiled = false;
  double grown[2] = {0, 0}; // during the call of input gradients, by whether blocks are recomputed
  for (bool full : {false, true}) {
    std::string pins = "dp=1,tp=1,pp=2,schedule=zb,recompute=";
    FoundStages of(best(transformer({8}), 2, pins + (full ? "full" : "none"), on), on);
    const StageCosts &costs = of.stages.costs();
    ASSERT_FALSE(costs.placesCalls());
    for (const StageRun &run : of.stages.getStages()) {
      dtc::simulate::StageCost cost = costs.stage(run);
      EXPECT_EQ(cost.keptBytes, double(costs.keptBytes(run)));
      EXPECT_GT(cost.keptBytes, cost.waitingBytes);
      EXPECT_LE(cost.weightGradTransient, cost.backwardTransient);
      grown[full] += cost.keptBytes - cost.savedBytes;
      EXPECT_EQ(costs.heldBytes(run, {2, true}) - costs.heldBytes(run, {2, false}),
                std::max<int64_t>(0, costs.keptBytes(run) - costs.savedBytes(run)));
    }
  }
  EXPECT_GT(grown[true], 0);
  EXPECT_GT(grown[true], grown[false]);
}

/// Chunks of a rank that read one parameter have its states once.
TEST(HeldBytes, OffloadedStatesPassThroughOnceForAllStagesOfARank) {
  Cluster on = cluster("dgx-h100");
  FoundStages of(best(load("gpt"), 2, "dp=1,tp=1,pp=2,offload=optimizer", on), on);
  const StageCosts &costs = of.stages.costs();
  for (const StageRun &run : of.stages.getStages()) {
    const StageCosts::Runs alone = {run}, twice = {run, run};
    EXPECT_GT(costs.betweenCalls(alone).update, 0);
    EXPECT_EQ(costs.betweenCalls(twice).update, costs.betweenCalls(alone).update);
  }
}

} // namespace
