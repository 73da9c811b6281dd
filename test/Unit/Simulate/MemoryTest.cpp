#include "Costs.h"

using namespace dtc::simulate;
using dtc::schedule::ScheduleKind;
using dtc::schedule::ScheduleShape;

/// GPipe keeps all M microbatches, 1F1B's rank r P - r, ZB-H1's all ranks P.
TEST(Memory, MicrobatchesKept) {
  for (int64_t microbatches : {2, 8}) {
    auto peak = [&](ScheduleKind kind, int64_t rank) {
      ScheduleShape shape{kind, 4, 1, microbatches};
      return run(shape, equalStages(shape)).ranks[rank].peakBytes;
    };
    for (int64_t rank = 0; rank < 4; ++rank) {
      auto most = double(microbatches);
      EXPECT_EQ(peak(ScheduleKind::GPipe, rank), most);
      EXPECT_EQ(peak(ScheduleKind::OneFOneB, rank), std::min(most, 4.0 - double(rank)));
      EXPECT_EQ(peak(ScheduleKind::ZeroBubble, rank), std::min(most, 4.0));
    }
  }
}

/// Narayanan et al. 2021: the first rank keeps 2 (P - 1) + (C - 1) P + 1 parts.
TEST(Memory, InterleavingKeepsMore) {
  ScheduleShape shape{ScheduleKind::Interleaved, 4, 2, 16};
  Timeline timeline = run(shape, equalStages(shape));
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(timeline.ranks[rank].peakBytes, 2 * (3 - rank) + 4 + 1);
}

TEST(Memory, OverTime) {
  ScheduleShape shape{ScheduleKind::OneFOneB, 1, 1, 2};
  Costs costs = equalStages(shape);
  costs.stages[0].savedBytes = 100;
  costs.stages[0].forwardTransient = 10;
  costs.stages[0].backwardTransient = 30;
  costs.ranks[0].staticBytes = 1000;
  costs.ranks[0].update.compute = 1;
  costs.ranks[0].updateTransient = 5;
  Timeline timeline = run(shape, costs, true);
  std::vector<MemoryPoint> expected = {{0, 1110}, {1, 1130}, {3, 1110},
                                       {4, 1130}, {6, 1005}, {7, 1000}};
  EXPECT_EQ(timeline.ranks[0].memory, expected);
  EXPECT_EQ(timeline.ranks[0].peakBytes, 1130);
  EXPECT_EQ(timeline.ranks[0].peakSeconds, 1);
  EXPECT_TRUE(run(shape, costs).ranks[0].memory.empty());
}

/// Between the two backward calls only a part is kept.
TEST(Memory, WeightGradientsKeepAPart) {
  ScheduleShape shape{ScheduleKind::ZeroBubble, 1, 1, 1};
  Costs costs = equalStages(shape);
  costs.stages[0].savedBytes = 100;
  costs.stages[0].keptBytes = 40;
  costs.stages[0].backwardTransient = 1;
  costs.stages[0].weightGradTransient = 2;
  std::vector<MemoryPoint> expected = {{0, 100}, {1, 101}, {2, 42}, {3, 0}};
  EXPECT_EQ(run(shape, costs, true).ranks[0].memory, expected);
}

/// What is computed again for them waits, which is more than was saved.
TEST(Memory, WeightGradientsMayKeepMoreThanWasSaved) {
  ScheduleShape shape{ScheduleKind::ZeroBubble, 1, 1, 1};
  Costs costs = equalStages(shape);
  costs.stages[0].savedBytes = 10;
  costs.stages[0].keptBytes = 40;
  costs.stages[0].backwardTransient = 5;
  costs.stages[0].weightGradTransient = 2;
  std::vector<MemoryPoint> expected = {{0, 10}, {1, 45}, {2, 42}, {3, 0}};
  EXPECT_EQ(run(shape, costs, true).ranks[0].memory, expected);
  EXPECT_NEAR(leastPeakBytes(*dtc::schedule::makeSchedule(shape), costs, 0), 45, 1e-3);
}

/// Slots and messages have places all step, behind which the largest call has its temporaries.
TEST(Memory, PlacesAreKeptAllStep) {
  auto places = [](ScheduleKind kind, double update) {
    ScheduleShape shape{kind, 2, 1, 1};
    Costs costs = equalStages(shape);
    costs.placed = true;
    for (StageCost &stage : costs.stages) {
      stage.savedBytes = stage.keptBytes = 100;
      stage.waitingBytes = 40;
      stage.temporaries = {.forward = 10, .backward = 30, .inputGrad = 20, .weightGrad = 25};
    }
    costs.boundaries[0] = {7, 5, 1, 0, 0};
    costs.ranks[0].updateTransient = update;
    Timeline timeline = run(shape, costs);
    auto schedule = dtc::schedule::makeSchedule(shape);
    EXPECT_NEAR(leastPeakBytes(*schedule, costs, 1), timeline.ranks[1].peakBytes - 12, 1e-3);
    EXPECT_EQ(timeline.ranks[1].peakBytes, kind == ScheduleKind::GPipe ? 142 : 177);
    return timeline.ranks[0].peakBytes;
  };
  EXPECT_EQ(places(ScheduleKind::GPipe, 0), 100 + 30 + 7 + 5);
  EXPECT_EQ(places(ScheduleKind::GPipe, 200), 200 + 7 + 5);
  EXPECT_EQ(places(ScheduleKind::ZeroBubble, 0), 100 + 40 + 25 + 7 + 5);
}

/// Between chunks of one rank, messages lie in slots. What both have there is one.
TEST(Memory, WhatARankHandsOverLiesInSlots) {
  ScheduleShape shape{ScheduleKind::ZeroBubbleV, 2, 2, 8};
  const dtc::schedule::Schedule schedule = *dtc::schedule::makeSchedule(shape);
  ASSERT_EQ(schedule.slots[1], (std::vector<int32_t>{3, 3}));
  auto peak = [&](double forward, double backward, double inSlots) {
    Costs costs = equalStages(shape);
    costs.placed = true;
    for (StageCost &stage : costs.stages)
      stage.savedBytes = stage.keptBytes = 100;
    costs.boundaries[1].forwardBytes = forward;
    costs.boundaries[1].backwardBytes = backward;
    costs.boundaries[1].slotBytes = inSlots;
    costs.boundaries[1].bandwidth = 1;
    const double bytes = run(shape, costs).ranks[1].peakBytes;
    EXPECT_NEAR(leastPeakBytes(schedule, costs, 1), bytes, 1e-3);
    return bytes;
  };
  EXPECT_EQ(peak(0, 0, 0), 3 * 200);
  EXPECT_EQ(peak(7, 5, 0), 3 * (200 + 7 + 5)) << "neither stage keeps it";
  EXPECT_EQ(peak(7, 5, 7 + 7), 3 * (200 - 7 + 5)) << "both keep the activation";
}

/// A message is in memory at the sender until it is sent. From then on it is at the receiver, until
/// the call that needs it begins.
TEST(Memory, MessagesTakePlaceAtBothEnds) {
  ScheduleShape shape{ScheduleKind::GPipe, 2, 1, 1};
  Costs costs = equalStages(shape);
  for (StageCost &stage : costs.stages)
    stage.savedBytes = 100;
  costs.boundaries[0] = {7, 5, 1, 0, 0};
  Timeline timeline = run(shape, costs, true);
  std::vector<MemoryPoint> first = {{0, 100}, {1, 107}, {8, 100}, {11, 105}, {16, 100}, {18, 0}};
  std::vector<MemoryPoint> second = {{1, 7}, {8, 100}, {11, 5}, {16, 0}};
  EXPECT_EQ(timeline.ranks[0].memory, first);
  EXPECT_EQ(timeline.ranks[1].memory, second);
}

/// Results that pile up before a slower stage count.
TEST(Memory, ASlowReceiverCollectsMessages) {
  ScheduleShape shape{ScheduleKind::GPipe, 2, 1, 4};
  Costs costs = equalStages(shape);
  for (StageCost &stage : costs.stages)
    stage.savedBytes = 0;
  costs.stages[1].forward.compute = 100;
  costs.boundaries[0] = {7, 0, 1e3, 0, 0};
  EXPECT_EQ(run(shape, costs).ranks[1].peakBytes, 3 * 7);
}
