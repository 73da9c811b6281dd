// What descriptors say must be true of the calls that they make.
#include "dtc/Schedule/Descriptor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

using namespace dtc::schedule;

/// All schedules of small shapes.
static void forEachSchedule(const std::function<void(const Schedule &)> &visit) {
  for (ScheduleKind kind : allSchedules())
    for (int64_t ranks = 1; ranks <= 6; ++ranks)
      for (int64_t chunks = 1; chunks <= 3; ++chunks)
        for (int64_t microbatches = 1; microbatches <= 13; ++microbatches)
          if (auto schedule = makeSchedule({kind, ranks, chunks, microbatches}))
            visit(*schedule);
}

static std::string text(const ScheduleShape &shape) {
  return std::string(name(shape.kind)) + " " + std::to_string(shape.ranks) + " x " +
         std::to_string(shape.chunks) + ", " + std::to_string(shape.microbatches);
}

TEST(Descriptor, NamesAreThoseOfASpec) {
  std::vector<std::string> names;
  for (ScheduleKind kind : allSchedules()) {
    names.push_back(name(kind));
    EXPECT_EQ(scheduleFromName(name(kind)), kind);
    EXPECT_NE(std::string(describe(kind).about), "");
  }
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_EQ(scheduleFromName("1f1b"), ScheduleKind::OneFOneB);
  EXPECT_EQ(scheduleFromName("1F1B"), std::nullopt);
}

/// With as many chunks as it says, and with no others.
TEST(Descriptor, NumberOfChunks) {
  for (ScheduleKind kind : allSchedules()) {
    const Descriptor &about = describe(kind);
    for (int64_t chunks = 1; chunks <= 6; ++chunks)
      EXPECT_EQ(makeSchedule({kind, 2, chunks, 4}).has_value(),
                about.fewestChunks <= chunks && chunks <= about.mostChunks);
  }
}

/// Calls that split the backward pass, and which of them are late.
TEST(Descriptor, LateWeightGradients) {
  forEachSchedule([](const Schedule &schedule) {
    const Descriptor &kind = describe(schedule.shape.kind);
    for (int64_t rank = 0; rank < schedule.shape.ranks; ++rank) {
      const std::vector<Call> &calls = schedule.calls[rank];
      auto last = std::find_if(calls.rbegin(), calls.rend(),
                               [](const Call &call) { return call.pass == Pass::InputGrad; });
      ASSERT_EQ(last != calls.rend(), kind.splitsBackward()) << text(schedule.shape);
      if (!kind.splitsBackward())
        continue;
      std::map<int32_t, int64_t> late;
      for (auto call = last.base(); call != calls.end(); ++call)
        ++late[call->chunk];
      for (int32_t chunk = 0; chunk < schedule.shape.chunks; ++chunk)
        ASSERT_EQ(kind.lateWeightGrads(schedule.shape, rank, chunk), late[chunk])
            << text(schedule.shape) << " on rank " << rank;
    }
  });
}

/// What a short schedule keeps tells what a long one keeps, or it keeps all.
TEST(Descriptor, KeepsAll) {
  for (ScheduleKind kind : allSchedules())
    for (int64_t ranks = 1; ranks <= 6; ++ranks)
      for (int64_t chunks = describe(kind).fewestChunks;
           chunks <= std::min<int64_t>(3, describe(kind).mostChunks); ++chunks) {
        auto slots = [&](int64_t microbatches) {
          return makeSchedule({kind, ranks, chunks, microbatches})->slots;
        };
        if (!describe(kind).keepsAll)
          EXPECT_EQ(slots(3 * ranks), slots(8 * ranks)) << name(kind);
        for (const std::vector<int32_t> &held : slots(8 * ranks))
          if (describe(kind).keepsAll)
            EXPECT_EQ(held, std::vector<int32_t>(size_t(chunks), int32_t(8 * ranks)));
      }
}

/// Kinds with a limit say how many microbatches they keep without one; others take none.
TEST(Descriptor, LimitsOfKeptMicrobatches) {
  for (ScheduleKind kind : allSchedules())
    for (int64_t ranks = 1; ranks <= 6; ++ranks) {
      const Descriptor &about = describe(kind);
      ScheduleShape shape{kind, ranks, about.fewestChunks, 6 * ranks, 1};
      EXPECT_EQ(unsupported(shape).empty(), about.limitsKept()) << text(shape);
      if (!about.limitsKept())
        continue;
      shape.kept = about.usuallyKept(ranks);
      ScheduleShape usual = shape;
      usual.kept = 0;
      EXPECT_EQ(makeSchedule(shape)->calls, makeSchedule(usual)->calls) << text(shape);
    }
}

/// A limit of as many microbatches as there are ranks leaves no less than 1F1B keeps. That is where
/// the planner gives it up with 1F1B.
TEST(Descriptor, LimitsOfAsManyAsRanksKeepNoLessThan1F1B) {
  for (int64_t ranks = 1; ranks <= 6; ++ranks)
    for (int64_t kept = ranks; kept <= 2 * ranks; ++kept) {
      Schedule limited = *makeSchedule({ScheduleKind::ListScheduled, ranks, 1, 13, kept});
      Schedule least = *makeSchedule({ScheduleKind::OneFOneB, ranks, 1, 13});
      for (int64_t rank = 0; rank < ranks; ++rank)
        EXPECT_GE(limited.slots[rank][0], least.slots[rank][0]) << ranks << " " << kept;
    }
}

/// The planner gives up all of them where 1F1B doesn't fit.
TEST(Descriptor, NoneOfOneChunkKeepsLessThan1F1B) {
  forEachSchedule([](const Schedule &schedule) {
    ScheduleShape shape = schedule.shape;
    if (shape.chunks > 1)
      return;
    shape.kind = ScheduleKind::OneFOneB;
    Schedule least = *makeSchedule(shape);
    for (int64_t rank = 0; rank < shape.ranks; ++rank)
      EXPECT_GE(schedule.slots[rank][0], least.slots[rank][0]) << text(schedule.shape);
  });
}

TEST(Descriptor, Placements) {
  forEachSchedule([](const Schedule &schedule) {
    EXPECT_EQ(schedule.placement, placementOf(schedule.shape));
    EXPECT_EQ(check(schedule.placement), "") << text(schedule.shape);
  });
}
