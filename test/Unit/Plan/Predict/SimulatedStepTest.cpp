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
  for (const StagePrediction &stage : predicted.stages)
    EXPECT_EQ(stage.memory.total(), stage.peakMemory);
  EXPECT_NE(predicted.stages[0].memory, predicted.stages[1].memory);
  pipeline.degrees.schedule = ScheduleKind::GPipe;
  EXPECT_EQ(simulateStep(problem, pipeline, on).error,
            "schedule=gpipe has one chunk a rank, got 2");
}

/// A weight that the first and the last stage share. Each sums its gradient up for itself, and they
/// exchange it once a step, not with every microbatch.
TEST(SimulatedStep, SendsNoGradientsOfWeightsBetweenStages) {
  Problem problem = load("gpt");
  Plan pipeline = plan(problem, 4, "tp=4").plan;
  pipeline.degrees.pp = 2;
  pipeline.degrees.numMicrobatches = problem.numMicrobatches = 4;
  // The cut leaves one value to send, the sum of the residual stream after attention.
  int64_t last = pipeline.stages[0].lastOp;
  pipeline.stages = {{0, 17, {0, 1, 2, 3}}, {18, last, {4, 5, 6, 7}}};
  int64_t hidden = 2048 * 4096 * 4, calls = 0;
  for (const CollectiveUse &use : predict(problem, pipeline, cluster("dgx-h100")).collectives)
    if (use.send) {
      EXPECT_LE(use.bytes, hidden);
      calls += use.count;
    }
  EXPECT_EQ(calls, 4);
}
