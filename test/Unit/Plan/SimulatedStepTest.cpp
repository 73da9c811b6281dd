// The simulator and the prediction of a plan agree.
#include "Problems.h"

#include <algorithm>

using namespace dtc::plan;
using namespace dtc::plan::testing;

/// `--trace` shows what is predicted: the same step, the same memory.
TEST(SimulatedStep, IsTheOneThatIsPredicted) {
  Problem problem = load("gpt");
  Cluster on = cluster("dgx-h100");
  Plan pipeline = interleaved(plan(problem, 4, "tp=4").plan, 4);
  problem.numMicrobatches = 4;
  Prediction predicted = predict(problem, pipeline, on);
  dtc::simulate::Timeline timeline = simulateStep(problem, pipeline, on);
  EXPECT_EQ(timeline.stepSeconds, predicted.stepSeconds);
  EXPECT_EQ(timeline.bubbleFraction, predicted.bubbleFraction);
  EXPECT_GT(timeline.bubbleFraction, 0);
  double most = 0;
  ASSERT_EQ(timeline.ranks.size(), 2u);
  for (const auto &rank : timeline.ranks) {
    double peak = 0;
    for (const auto &point : rank.memory)
      peak = std::max(peak, point.bytes);
    EXPECT_EQ(peak, rank.peakBytes);
    most = std::max(most, peak);
  }
  EXPECT_EQ(most, double(predicted.memory.total()));
  pipeline.degrees.schedule = ScheduleKind::GPipe;
  EXPECT_EQ(simulateStep(problem, pipeline, on).error,
            "only an interleaved schedule has several chunks a rank, got 2");
}
