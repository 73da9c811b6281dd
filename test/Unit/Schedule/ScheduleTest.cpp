#include "CallText.h"

#include "dtc/Schedule/Descriptor.h"
#include "dtc/Schedule/Groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

using namespace dtc::schedule;

static Schedule made(ScheduleKind kind, int64_t ranks, int64_t chunks, int64_t microbatches) {
  ScheduleShape shape{kind, ranks, chunks, microbatches};
  std::optional<Schedule> schedule = makeSchedule(shape);
  EXPECT_TRUE(schedule) << unsupported(shape);
  return schedule ? *schedule : Schedule();
}

static std::string slotText(const std::vector<Call> &calls) {
  std::string result;
  for (const Call &call : calls)
    result += (result.empty() ? "" : " ") + std::to_string(call.slot);
  return result;
}

TEST(Schedule, GPipe) {
  Schedule schedule = made(ScheduleKind::GPipe, 2, 1, 3);
  EXPECT_EQ(text(schedule.calls[0]), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(text(schedule.calls[1]), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(schedule.slots[0][0], 3);
}

TEST(Schedule, OneFOneB) {
  Schedule schedule = made(ScheduleKind::OneFOneB, 2, 1, 3);
  EXPECT_EQ(text(schedule.calls[0]), "F0 F1 B0 F2 B1 B2");
  EXPECT_EQ(slotText(schedule.calls[0]), "0 1 0 0 1 0");
  EXPECT_EQ(text(schedule.calls[1]), "F0 B0 F1 B1 F2 B2");
  EXPECT_EQ(slotText(schedule.calls[1]), "0 0 0 0 0 0");
}

/// Two ranks, two chunks, four microbatches as Megatron-LM's schedule orders them.
TEST(Schedule, Interleaved) {
  Schedule schedule = made(ScheduleKind::Interleaved, 2, 2, 4);
  EXPECT_EQ(text(schedule.calls[0]), "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 "
                                     "B2.1 B3.1 B2 B3");
  EXPECT_EQ(text(schedule.calls[1]), "F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1 "
                                     "F3.1 B3.1 B2 B3");
}

TEST(Schedule, ZeroBubble) {
  Schedule schedule = made(ScheduleKind::ZeroBubble, 3, 1, 4);
  EXPECT_EQ(text(schedule.calls[0]), "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  EXPECT_EQ(text(schedule.calls[1]), "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3");
  EXPECT_EQ(text(schedule.calls[2]), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
}

/// Microbatches times chunks that a rank holds at most at a time.
static int mostHeld(const std::vector<Call> &calls) {
  int held = 0, most = 0;
  for (const Call &call : calls) {
    held += (call.pass == Pass::Forward) - (call.pass == Pass::WeightGrad);
    most = std::max(most, held);
  }
  return most;
}

/// Rank 1 turns round: its second chunk follows its first.
TEST(Schedule, ZeroBubbleV) {
  Schedule schedule = made(ScheduleKind::ZeroBubbleV, 2, 2, 3);
  EXPECT_EQ(schedule.stage(0, 1), 3);
  EXPECT_EQ(schedule.stage(1, 1), 2);
  EXPECT_EQ(text(schedule.calls[0]),
            "F0 F1 F2 F0.1 I0.1 W0.1 F1.1 I1.1 W1.1 I0 W0 F2.1 I2.1 W2.1 I1 W1 I2 W2");
  EXPECT_EQ(text(schedule.calls[1]),
            "F0 F0.1 F1 F1.1 I0.1 W0.1 F2 I0 W0 F2.1 I1.1 W1.1 I1 I2.1 I2 W1 W2.1 W2");
  // As much as 1F1B's first rank, whose four microbatches are of twice as many layers.
  for (const std::vector<Call> &calls : made(ScheduleKind::ZeroBubbleV, 4, 2, 16).calls)
    EXPECT_EQ(mostHeld(calls), 8);
}

TEST(Schedule, ListScheduled) {
  Schedule schedule = made(ScheduleKind::ListScheduled, 2, 1, 4);
  EXPECT_EQ(text(schedule.calls[0]), "F0 F1 F2 I0 W0 I1 F3 I2 W1 W2 I3 W3");
  EXPECT_EQ(text(schedule.calls[1]), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
  for (const std::vector<Call> &calls : made(ScheduleKind::ListScheduled, 4, 1, 32).calls)
    EXPECT_EQ(mostHeld(calls), 7);
}

static Schedule madeKeeping(int64_t ranks, int64_t microbatches, int64_t kept) {
  ScheduleShape shape{ScheduleKind::ListScheduled, ranks, 1, microbatches, kept};
  std::optional<Schedule> schedule = makeSchedule(shape);
  EXPECT_TRUE(schedule) << unsupported(shape);
  return schedule ? *schedule : Schedule();
}

/// As Schedule.h has them.
TEST(Schedule, FewerSlotsAreMoreWaiting) {
  EXPECT_EQ(text(madeKeeping(2, 4, 3).calls[0]), "F0 F1 F2 I0 W0 I1 F3 I2 W1 W2 I3 W3");
  EXPECT_EQ(text(madeKeeping(2, 4, 2).calls[0]), "F0 F1 I0 W0 I1 F2 W1 F3 I2 W2 I3 W3");
  EXPECT_EQ(text(madeKeeping(2, 4, 1).calls[0]), "F0 I0 W0 F1 I1 W1 F2 I2 W2 F3 I3 W3");
  EXPECT_EQ(madeKeeping(2, 4, 0).calls, madeKeeping(2, 4, 3).calls);
}

/// Each can be carried out, also where a rank keeps one. The first rank keeps as many as it may.
TEST(Schedule, NoRankKeepsMoreThanItMay) {
  for (int64_t ranks = 1; ranks <= 6; ++ranks)
    for (int64_t kept = 1; kept <= 2 * ranks; ++kept)
      for (int64_t microbatches : {int64_t(1), ranks, 4 * ranks + 1}) {
        Schedule schedule = madeKeeping(ranks, microbatches, kept);
        ASSERT_EQ(check(schedule), "") << ranks << " " << kept << " " << microbatches;
        for (int64_t rank = 0; rank < ranks; ++rank)
          EXPECT_LE(schedule.slots[rank][0], std::min(kept, microbatches));
        EXPECT_EQ(schedule.slots[0][0], std::min(kept, microbatches)) << ranks;
      }
}

/// Three microbatches on two ranks are one group; of five, the second group has three.
TEST(Schedule, InterleavedInGroupsOfAnySize) {
  Schedule three = made(ScheduleKind::Interleaved, 2, 2, 3);
  EXPECT_EQ(text(three.calls[0]), "F0 F1 F2 F0.1 F1.1 F2.1 B0.1 B1.1 B2.1 B0 B1 B2");
  EXPECT_EQ(text(three.calls[1]), "F0 F1 F2 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 B0 B1 B2");
  Schedule five = made(ScheduleKind::Interleaved, 2, 2, 5);
  EXPECT_EQ(text(five.calls[1]), "F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F4 F2.1 B2.1 F3.1 B3.1 "
                                 "F4.1 B4.1 B2 B3 B4");
  EXPECT_EQ(text(made(ScheduleKind::Interleaved, 4, 2, 1).calls[3]), "F0 F0.1 B0.1 B0");
  EXPECT_EQ(leftOver(five.shape), 1);
  EXPECT_EQ(leftOver(made(ScheduleKind::Interleaved, 2, 1, 5).shape), 0);
  EXPECT_EQ(leftOver(made(ScheduleKind::OneFOneB, 2, 1, 5).shape), 0);
  // A short schedule that ends alike holds as much as a long one.
  for (int64_t left = 0; left < 4; ++left)
    EXPECT_EQ(made(ScheduleKind::Interleaved, 4, 3, 12 + left).slots,
              made(ScheduleKind::Interleaved, 4, 3, 96 + left).slots);
}

/// Microbatches that each rank keeps at a time: GPipe all, 1F1B P - r, ZB-H1 P.
TEST(Schedule, SlotsAreThoseOfTheLiterature) {
  Schedule gpipe = made(ScheduleKind::GPipe, 4, 1, 8);
  Schedule steady = made(ScheduleKind::OneFOneB, 4, 1, 8);
  Schedule split = made(ScheduleKind::ZeroBubble, 4, 1, 8);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(gpipe.slots[rank][0], 8);
    EXPECT_EQ(steady.slots[rank][0], 4 - rank);
    EXPECT_EQ(split.slots[rank][0], 4);
  }
}

TEST(Schedule, RefusesShapesWithoutOne) {
  auto refusal = [](ScheduleKind kind, int64_t ranks, int64_t chunks, int64_t microbatches) {
    ScheduleShape shape{kind, ranks, chunks, microbatches};
    EXPECT_FALSE(makeSchedule(shape));
    return unsupported(shape);
  };
  EXPECT_EQ(refusal(ScheduleKind::GPipe, 0, 1, 1), "a pipeline needs at least one rank, got 0");
  EXPECT_EQ(refusal(ScheduleKind::Interleaved, 1, 0, 1),
            "a rank needs at least one chunk, got 0");
  EXPECT_EQ(refusal(ScheduleKind::GPipe, 1, 1, -1),
            "a schedule needs at least one microbatch, got -1");
  EXPECT_EQ(refusal(ScheduleKind::OneFOneB, 4, 2, 8), "schedule=1f1b has one chunk a rank, got 2");
  EXPECT_EQ(refusal(ScheduleKind::ZeroBubbleV, 4, 1, 8),
            "schedule=zbv has at least 2 chunks a rank, got 1");
  EXPECT_EQ(unsupported({ScheduleKind::ZeroBubble, 4, 1, 8, 3}),
            "schedule=zb takes no limit of kept microbatches, got kept=3");
  EXPECT_EQ(unsupported({ScheduleKind::ListScheduled, 4, 1, 8, -1}),
            "a rank keeps at least one microbatch, got kept=-1");
  EXPECT_EQ(refusal(ScheduleKind::GPipe, INT64_MAX, 1, INT64_MAX),
            "a schedule of 9223372036854775807 microbatches on 9223372036854775807 x 1 stages "
            "is too long");
  EXPECT_EQ(refusal(ScheduleKind::Interleaved, 2, INT64_MAX, 2),
            "a schedule of 2 microbatches on 2 x 9223372036854775807 stages is too long");
}

/// The checker accepts every schedule of every small shape, and no slot is
/// there for nothing.
TEST(Schedule, EveryShapeCanBeCarriedOut) {
  int64_t checked = 0, numbersOfChunks = 0;
  for (ScheduleKind kind : allSchedules()) {
    const Descriptor &known = describe(kind);
    numbersOfChunks += std::min<int64_t>(known.mostChunks, 4) - known.fewestChunks + 1;
    for (int64_t ranks = 1; ranks <= 8; ++ranks)
      for (int64_t chunks = 1; chunks <= 4; ++chunks)
        for (int64_t microbatches = 1; microbatches <= 24; ++microbatches) {
          ScheduleShape shape{kind, ranks, chunks, microbatches};
          std::optional<Schedule> schedule = makeSchedule(shape);
          if (!schedule)
            continue;
          ++checked;
          ASSERT_EQ(check(*schedule), "") << ranks << " " << chunks << " " << microbatches;
          for (int64_t rank = 0; rank < ranks; ++rank) {
            std::map<int32_t, int32_t> used;
            for (const Call &call : schedule->calls[rank])
              used[call.chunk] = std::max(used[call.chunk], call.slot + 1);
            for (auto [chunk, slots] : used)
              ASSERT_EQ(slots, schedule->slots[rank][chunk]);
          }
        }
  }
  EXPECT_EQ(checked, numbersOfChunks * 8 * 24);
}
