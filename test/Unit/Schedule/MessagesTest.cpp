#include "dtc/Schedule/Messages.h"
#include "dtc/Schedule/Descriptor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

using namespace dtc::schedule;

namespace {

/// As in Messages.h: calls, ">" where a message is sent and "<" where one is received.
std::string text(const Schedule &schedule, const Communication &communication, int64_t rank) {
  std::string result;
  for (const Step &step : communication.steps[rank]) {
    result += result.empty() ? "" : " ";
    if (step.action != Step::Action::Call) {
      result += step.action == Step::Action::Send ? ">" : "<";
      continue;
    }
    const Call &call = schedule.calls[rank][step.index];
    result += std::string(1, "FBIW"[int(call.pass)]) + std::to_string(call.microbatch);
    if (call.chunk > 0)
      result += "." + std::to_string(call.chunk);
  }
  return result;
}

Schedule made(ScheduleKind kind, int64_t ranks, int64_t chunks, int64_t microbatches) {
  return *makeSchedule({kind, ranks, chunks, microbatches});
}

Communication communicationOf(const Schedule &schedule) {
  return dtc::schedule::communicationOf(schedule, evenTimes(schedule.shape));
}

/// Some schedule of a placement: each rank makes any of its calls that could come next.
class RandomSchedule {
public:
  RandomSchedule(const Placement &placement, int64_t microbatches, unsigned seed)
      : generator(seed) {
    schedule.shape = {ScheduleKind::OneFOneB, placement.ranks(), placement.chunks(), microbatches};
    schedule.placement = placement;
    schedule.calls.resize(placement.ranks());
    auto all = std::vector<int32_t>(placement.chunks(), int32_t(microbatches));
    schedule.slots.assign(placement.ranks(), all);
    done.assign(3, std::vector<int32_t>(placement.stages(), 0));
    bool splits = generator() % 2;
    for (int64_t left = placement.stages() * microbatches * (splits ? 3 : 2); left > 0;) {
      auto rank = int64_t(generator() % uint64_t(placement.ranks()));
      auto chunk = int64_t(generator() % uint64_t(placement.chunks()));
      left -= call(placement.stage(rank, chunk), int(generator() % (splits ? 3 : 2)), splits);
    }
  }
  Schedule schedule;

private:
  /// Microbatches pass each stage in ascending order.
  bool call(int64_t stage, int pass, bool splits) {
    int32_t m = done[pass][stage];
    bool last = stage + 1 == schedule.shape.stages();
    bool ready = pass == 0   ? stage == 0 || done[0][stage - 1] > m
                 : pass == 1 ? done[0][stage] > m && (last || done[1][stage + 1] > m)
                             : done[1][stage] > m;
    if (!ready || m == schedule.shape.microbatches)
      return false;
    ++done[pass][stage];
    Place place = schedule.placement.place(stage);
    Pass kind = pass == 0   ? Pass::Forward
                : pass == 2 ? Pass::WeightGrad
                            : (splits ? Pass::InputGrad : Pass::Backward);
    schedule.calls[place.rank].push_back({kind, place.chunk, m, m});
    return true;
  }

  std::mt19937 generator;
  std::vector<std::vector<int32_t>> done; ///< by pass and stage: microbatches
};

StepTimes randomTimes(const ScheduleShape &shape, unsigned seed) {
  std::mt19937 generator(seed);
  StepTimes times = evenTimes(shape);
  for (auto *seconds : {&times.forward, &times.backward, &times.weights, &times.sendForward,
                        &times.sendBackward, &times.prologue})
    for (double &each : *seconds)
      each = double(generator() % 5); // 0 now and then
  return times;
}

const std::vector<Placement> kPlacements = {
    Placement::inTurn(1, 1),
    Placement::inTurn(1, 3),
    Placement::inTurn(2, 1),
    Placement::inTurn(3, 2),
    Placement({{0, 3}, {1, 2}}),
    Placement({{0, 7}, {1, 6}, {2, 5}, {3, 4}}),
    Placement({{0, 5, 6}, {1, 4, 7}, {2, 3, 8}}), // back and forth
    Placement({{0, 5}, {1, 3}, {2, 4}})};

} // namespace

/// The drawing of Messages.h.
TEST(Messages, OneFOneB) {
  Schedule schedule = made(ScheduleKind::OneFOneB, 2, 1, 2);
  Communication communication = communicationOf(schedule);
  EXPECT_EQ(text(schedule, communication, 0), "F0 > F1 > < B0 < B1");
  EXPECT_EQ(text(schedule, communication, 1), "< F0 < B0 > F1 B1 >");
  EXPECT_EQ(check(schedule, communication), "");
}

TEST(Messages, CallsKnowTheirMessages) {
  Schedule schedule = made(ScheduleKind::OneFOneB, 2, 1, 2);
  Communication communication = communicationOf(schedule);
  ASSERT_EQ(communication.messages.size(), 4u);
  std::vector<CallMessages> first = communication.calls[0], second = communication.calls[1];
  for (size_t i = 0; i < 4; ++i) { // F0 F1 B0 B1, and F0 B0 F1 B1
    EXPECT_EQ(first[i].sent >= 0, i < 2);
    EXPECT_EQ(first[i].received >= 0, i >= 2);
    EXPECT_EQ(second[i].sent >= 0, i % 2 == 1);
    EXPECT_EQ(second[i].received >= 0, i % 2 == 0);
  }
  const Message &message = communication.messages[second[0].received];
  EXPECT_EQ(message, (Message{0, 1, 0, 1, 0, 0, 0}));
  EXPECT_TRUE(message.isForward() && !message.isLocal());
}

/// Within a rank nothing is sent, and there is one box for both ends.
TEST(Messages, VShaped) {
  Schedule schedule = RandomSchedule(Placement({{0, 3}, {1, 2}}), 1, 1).schedule;
  Communication communication = communicationOf(schedule);
  int64_t local = std::count_if(communication.messages.begin(), communication.messages.end(),
                                [](const Message &message) { return message.isLocal(); });
  EXPECT_EQ(local, 2);
  EXPECT_EQ(communication.messages.size(), 6u);
  EXPECT_EQ(communication.boxes[1][1].forwardIn, 1);
  EXPECT_EQ(communication.boxes[1][0].forwardOut, 0);
  EXPECT_EQ(communication.boxes[1][0].backwardIn, 1);
}

TEST(Messages, OneRankSendsNothing) {
  Schedule schedule = made(ScheduleKind::OneFOneB, 1, 1, 3);
  Communication communication = communicationOf(schedule);
  EXPECT_EQ(text(schedule, communication, 0), "F0 B0 F1 B1 F2 B2");
  EXPECT_TRUE(communication.messages.empty());
  EXPECT_EQ(communication.boxes[0][0], Boxes{});
}

/// Where the last rank is slow, what the ones before have made waits in its inboxes.
TEST(Messages, BoxesAreAsManyAsNoCallWaitsFor) {
  Schedule schedule = made(ScheduleKind::GPipe, 2, 1, 4);
  StepTimes times = evenTimes(schedule.shape);
  EXPECT_EQ(dtc::schedule::communicationOf(schedule, times).boxes[1][0].forwardIn, 2);
  times.forward[1] = 100;
  Communication communication = dtc::schedule::communicationOf(schedule, times);
  EXPECT_EQ(communication.boxes[1][0].forwardIn, 4);
  EXPECT_EQ(communication.boxes[0][0].forwardOut, 2); // one is sent, one is made
  times.sendForward[0] = 10;
  EXPECT_EQ(dtc::schedule::communicationOf(schedule, times).boxes[0][0].forwardOut, 4);
}

TEST(Messages, EverySmallShapeOfEverySchedule) {
  for (ScheduleKind kind : allSchedules())
    for (int64_t ranks = 1; ranks <= 6; ++ranks)
      for (int64_t chunks = 1; chunks <= 3; ++chunks)
        for (int64_t microbatches = 1; microbatches <= 13; ++microbatches)
          if (auto schedule = makeSchedule({kind, ranks, chunks, microbatches}))
            for (unsigned seed = 0; seed < 4; ++seed) {
              StepTimes times =
                  seed == 0 ? evenTimes(schedule->shape) : randomTimes(schedule->shape, seed);
              Communication communication = dtc::schedule::communicationOf(*schedule, times);
              ASSERT_EQ(check(*schedule, communication), "")
                  << name(kind) << " " << ranks << " " << chunks << " " << microbatches;
              ASSERT_EQ(int64_t(communication.messages.size()),
                        2 * (schedule->shape.stages() - 1) * microbatches);
            }
}

TEST(Messages, AnyScheduleOfAnyPlacement) {
  for (unsigned seed = 0; seed < 800; ++seed) {
    const Placement &placement = kPlacements[seed % kPlacements.size()];
    Schedule schedule = RandomSchedule(placement, 1 + seed % 5, seed).schedule;
    ASSERT_EQ(check(schedule), "") << seed;
    StepTimes times = randomTimes(schedule.shape, seed);
    Communication communication = dtc::schedule::communicationOf(schedule, times);
    ASSERT_EQ(check(schedule, communication), "") << seed;
    ASSERT_EQ(communication, dtc::schedule::communicationOf(schedule, times));
  }
}
