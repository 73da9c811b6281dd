// What stages hold for the microbatches that are in flight at once.
#include "FoundStages.h"

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

} // namespace
