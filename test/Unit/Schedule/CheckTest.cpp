// The checker against schedules broken in every way.
#include "dtc/Schedule/Schedule.h"

#include <gtest/gtest.h>

#include <utility>

using namespace dtc::schedule;

namespace {

class Check : public testing::Test {
protected:
  /// Rank 0: F0 F1 B0 F2 B1 B2, rank 1: F0 B0 F1 B1 F2 B2.
  Schedule schedule = *makeSchedule({ScheduleKind::OneFOneB, 2, 1, 3});
  /// Rank 0: F0 F1 I0 W0 F2 I1 W1 I2 W2, rank 1: F0 I0 F1 I1 W0 F2 I2 W1 W2.
  Schedule split = *makeSchedule({ScheduleKind::ZeroBubble, 2, 1, 3});
};

} // namespace

TEST_F(Check, AcceptsWhatIsRight) {
  EXPECT_EQ(check(schedule), "");
  EXPECT_EQ(check(split), "");
}

TEST_F(Check, MissingCall) {
  schedule.calls[0].pop_back();
  EXPECT_EQ(check(schedule), "microbatch 2 doesn't finish stage 0");
}

TEST_F(Check, MissingWeightGradient) {
  split.calls[1].pop_back();
  EXPECT_EQ(check(split), "microbatch 2 doesn't finish stage 1");
}

TEST_F(Check, TooFewCalls) {
  schedule.calls[1].clear();
  EXPECT_EQ(check(schedule), "rank 1 has too few calls: 0");
}

TEST_F(Check, ForwardTwice) {
  schedule.calls[1].push_back({Pass::Forward, 0, 0, 0});
  EXPECT_EQ(check(schedule), "made twice: forward of chunk 0, microbatch 0, slot 0 on rank 1");
}

TEST_F(Check, BackwardTwice) {
  schedule.calls[1].push_back({Pass::Backward, 0, 1, 0});
  EXPECT_EQ(check(schedule), "made twice: backward of chunk 0, microbatch 1, slot 0 on rank 1");
}

TEST_F(Check, BackwardAndItsParts) {
  split.calls[1].push_back({Pass::Backward, 0, 1, 0});
  EXPECT_EQ(check(split), "made twice: backward of chunk 0, microbatch 1, slot 0 on rank 1");
}

TEST_F(Check, InputGradientTwice) {
  split.calls[1][2] = split.calls[1][1];
  EXPECT_EQ(check(split),
            "made twice: input gradient of chunk 0, microbatch 0, slot 0 on rank 1");
}

TEST_F(Check, BackwardBeforeForward) {
  std::swap(schedule.calls[1][0], schedule.calls[1][1]);
  EXPECT_EQ(check(schedule),
            "made too early: backward of chunk 0, microbatch 0, slot 0 on rank 1");
}

TEST_F(Check, WeightBeforeInputGradient) {
  std::swap(split.calls[0][2], split.calls[0][3]);
  EXPECT_EQ(check(split),
            "made too early: weight gradient of chunk 0, microbatch 0, slot 0 on rank 0");
}

/// Rank 0 waits for B0 of rank 1, which waits for F1 of rank 0.
TEST_F(Check, Deadlock) {
  std::swap(schedule.calls[0][1], schedule.calls[0][2]);
  std::swap(schedule.calls[1][1], schedule.calls[1][2]);
  schedule.slots[1][0] = 2;
  EXPECT_EQ(check(schedule),
            "waits for ever: backward of chunk 0, microbatch 0, slot 0 on rank 0");
}

/// A later chunk of the same rank before an earlier one.
TEST_F(Check, StagesOutOfOrder) {
  Schedule chunks = *makeSchedule({ScheduleKind::Interleaved, 1, 2, 1});
  ASSERT_EQ(check(chunks), "");
  std::swap(chunks.calls[0][0], chunks.calls[0][1]);
  EXPECT_EQ(check(chunks),
            "waits for ever: forward of chunk 1, microbatch 0, slot 0 on rank 0");
}

TEST_F(Check, SlotTakenTwice) {
  schedule.calls[0][1].slot = 0;
  EXPECT_EQ(check(schedule), "slot still holds microbatch 0: forward of chunk 0, microbatch 1, "
                             "slot 0 on rank 0");
}

/// The slot is the weight gradient's until it is made.
TEST_F(Check, SlotTakenBeforeTheWeightGradient) {
  split.calls[1][2].slot = 0;
  EXPECT_EQ(check(split), "slot still holds microbatch 0: forward of chunk 0, microbatch 1, "
                          "slot 0 on rank 1");
}

TEST_F(Check, WrongSlot) {
  schedule.calls[0][2].slot = 1;
  EXPECT_EQ(check(schedule), "slot doesn't hold the microbatch: backward of chunk 0, "
                             "microbatch 0, slot 1 on rank 0");
}

/// Its slots are right; only the sums of gradients come out otherwise.
TEST_F(Check, GradientsInAnotherOrder) {
  Schedule flush = *makeSchedule({ScheduleKind::GPipe, 2, 1, 3});
  for (std::vector<Call> &calls : flush.calls)
    std::swap(calls[4], calls[5]);
  EXPECT_EQ(check(flush), "gradients are added after those of microbatch 2: backward of chunk 0, "
                          "microbatch 1, slot 1 on rank 1");
}

/// Gradients of inputs may come in any order.
TEST_F(Check, WeightGradientsInAnotherOrder) {
  Schedule late = split;
  for (std::vector<Call> &calls : late.calls)
    calls.clear();
  late.slots = {{2}, {2}};
  late.shape.microbatches = 2;
  for (std::vector<Call> &calls : late.calls)
    calls = {{Pass::Forward, 0, 0, 0},   {Pass::Forward, 0, 1, 1},    {Pass::InputGrad, 0, 1, 1},
             {Pass::InputGrad, 0, 0, 0}, {Pass::WeightGrad, 0, 0, 0}, {Pass::WeightGrad, 0, 1, 1}};
  EXPECT_EQ(check(late), "");
  std::swap(late.calls[0][4], late.calls[0][5]);
  EXPECT_EQ(check(late), "gradients are added after those of microbatch 1: weight gradient of "
                         "chunk 0, microbatch 0, slot 0 on rank 0");
}

/// The schedule with a V-shaped placement in Schedule.h.
TEST_F(Check, VShaped) {
  Schedule turning;
  turning.shape = {ScheduleKind::OneFOneB, 2, 2, 1};
  turning.placement = Placement({{0, 3}, {1, 2}});
  turning.slots = {{1, 1}, {1, 1}};
  for (int rank = 0; rank < 2; ++rank)
    turning.calls.push_back({{Pass::Forward, 0, 0},
                             {Pass::Forward, 1, 0},
                             {Pass::Backward, 1, 0},
                             {Pass::Backward, 0, 0}});
  EXPECT_EQ(check(turning), "");
  Schedule broken = turning;
  std::swap(broken.calls[1][0], broken.calls[1][1]); // stage 2 before stage 1
  EXPECT_EQ(check(broken), "waits for ever: forward of chunk 1, microbatch 0, slot 0 on rank 0");
  broken = turning;
  broken.placement = Placement({{0, 2}, {2, 3}});
  EXPECT_EQ(check(broken), "stage 1 lies nowhere");
}

TEST_F(Check, OutOfRange) {
  auto expectOutOfRange = [&](int index, Call call) {
    Schedule broken = schedule;
    broken.calls[0][index] = call;
    EXPECT_EQ(check(broken).find("chunk, microbatch or slot out of range: "), 0u);
  };
  expectOutOfRange(0, {Pass::Forward, 1, 0, 0});
  expectOutOfRange(0, {Pass::Forward, -1, 0, 0});
  expectOutOfRange(0, {Pass::Forward, 0, 3, 0});
  expectOutOfRange(0, {Pass::Forward, 0, -1, 0});
  expectOutOfRange(0, {Pass::Forward, 0, 0, 2});
  expectOutOfRange(0, {Pass::Forward, 0, 0, -1});
}

TEST_F(Check, ListsThatDoNotFitTheShape) {
  Schedule broken = schedule;
  broken.calls.pop_back();
  EXPECT_EQ(check(broken), "there must be a list of calls for each rank, got 1");
  broken = schedule;
  broken.placement = Placement::inTurn(1, 2);
  EXPECT_EQ(check(broken), "the placement must be of 2 x 1 stages, got 1 x 2");
  broken = schedule;
  broken.slots.clear();
  EXPECT_EQ(check(broken), "there must be numbers of slots for each rank, got 0");
  broken = schedule;
  broken.slots[1].clear();
  EXPECT_EQ(check(broken), "each chunk of rank 1 must have a number of slots, got 0");
  broken = schedule;
  broken.slots[0][0] = 1 << 30;
  EXPECT_EQ(check(broken), "rank 0 can't have so many slots: 1073741824");
  broken = schedule;
  broken.shape.microbatches = 0;
  EXPECT_EQ(check(broken), "ranks, chunks and microbatches must be positive");
  broken = schedule;
  broken.shape.microbatches = int64_t(1) << 60;
  EXPECT_EQ(check(broken), "rank 0 has too few calls: 6");
}
