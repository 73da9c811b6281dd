#include "CallText.h"

#include "dtc/Schedule/Descriptor.h"
#include "dtc/Schedule/ForwardPasses.h"
#include "dtc/Schedule/Messages.h"

#include <gtest/gtest.h>

using namespace dtc::schedule;

namespace {

Schedule made(ScheduleKind kind, int64_t ranks, int64_t chunks, int64_t microbatches) {
  return *makeSchedule({kind, ranks, chunks, microbatches}, /*trains=*/false);
}

} // namespace

TEST(ForwardPasses, AreThoseOfTheKindInItsOrder) {
  EXPECT_EQ(text(made(ScheduleKind::OneFOneB, 2, 1, 3).calls[0]), "F0 F1 F2");
  EXPECT_EQ(text(made(ScheduleKind::Interleaved, 2, 2, 4).calls[0]),
            "F0 F1 F0.1 F1.1 F2 F3 F2.1 F3.1");
  EXPECT_FALSE(makeSchedule({ScheduleKind::OneFOneB, 2, 2, 3}, false));
}

/// Every kind can be carried out without its backward passes, messages included. It takes one slot
/// a chunk, or two where the next chunk of the rank reads them.
TEST(ForwardPasses, CanBeCarriedOut) {
  int checked = 0;
  for (ScheduleKind kind : allSchedules())
    for (int64_t ranks = 1; ranks <= 5; ++ranks)
      for (int64_t chunks = 1; chunks <= 3; ++chunks)
        for (int64_t microbatches = 1; microbatches <= 12; ++microbatches) {
          ScheduleShape shape{kind, ranks, chunks, microbatches};
          std::optional<Schedule> schedule = makeSchedule(shape, /*trains=*/false);
          if (!schedule)
            continue;
          ++checked;
          EXPECT_FALSE(trains(*schedule));
          ASSERT_EQ(check(*schedule), "") << name(kind) << ranks << chunks << microbatches;
          ASSERT_EQ(check(*schedule, communicationOf(*schedule, evenTimes(shape))), "")
              << name(kind) << ranks << chunks << microbatches;
          for (int64_t rank = 0; rank < ranks; ++rank)
            EXPECT_EQ(schedule->calls[rank].size(), size_t(chunks * microbatches));
          if (chunks == 1)
            EXPECT_EQ(schedule->slots[0][0], 1);
        }
  EXPECT_GE(checked, 250);
}

/// The rank where the V turns hands over within its slot, which is taken until it is read.
TEST(ForwardPasses, HoldWhatTheNextChunkReads) {
  Schedule schedule = made(ScheduleKind::ZeroBubbleV, 1, 2, 2);
  ASSERT_EQ(check(schedule), "");
  ASSERT_EQ(text(schedule.calls[0]).substr(0, 2), "F0");
  Call &second = schedule.calls[0][1], &third = schedule.calls[0][2];
  if (second.chunk == 1)
    std::swap(second, third); // both microbatches wait for the second chunk
  second.slot = third.slot = schedule.calls[0][0].slot;
  EXPECT_EQ(check(schedule).substr(0, 30), "slot still holds microbatch 0:");
}

TEST(ForwardPasses, AMicrobatchThatIsMissingIsFound) {
  Schedule schedule = made(ScheduleKind::OneFOneB, 2, 1, 3);
  schedule.calls[1].pop_back();
  schedule.calls[1].push_back(schedule.calls[1].back());
  EXPECT_NE(check(schedule), "");
}
