#include "dtc/Schedule/FunctionCalls.h"

#include <gtest/gtest.h>

using namespace dtc::schedule;

namespace {

const StageFunction kPrologue{.name = "prologue"}, kClear{.name = "clear"},
    kUpdate{.name = "update"};
const StageFunction kWhole{.name = "whole", .forward = true, .inputGrad = true, .weightGrad = true};
const StageFunction kForward{.name = "F", .forward = true};
const StageFunction kBackward{.name = "B", .inputGrad = true, .weightGrad = true};
const StageFunction kInputGrad{.name = "I", .inputGrad = true};
const StageFunction kWeightGrad{.name = "W", .weightGrad = true};

class Steps {
public:
  explicit Steps(const ScheduleShape &shape) : schedule(*makeSchedule(shape)) {
    communication = communicationOf(schedule, evenTimes(shape));
  }
  FunctionSteps of(int64_t rank, const std::vector<StageFunction> &functions) const {
    return functionSteps(schedule, communication, rank, functions);
  }
  /// "whole 0", "> 1" and "< 1" for messages of microbatch 1; or the error.
  std::string text(int64_t rank, const std::vector<StageFunction> &functions) const {
    FunctionSteps found = of(rank, functions);
    std::string result = found.error;
    for (const FunctionStep &step : found.steps) {
      result += result.empty() ? "" : ", ";
      result += step.action == Step::Action::Send      ? ">"
                : step.action == Step::Action::Receive ? "<"
                                                       : functions[step.function].name;
      if (step.action != Step::Action::Call || !functions[step.function].isOnce())
        result += " " + std::to_string(step.microbatch);
    }
    return result;
  }

  Schedule schedule;
  Communication communication;
};

const ScheduleShape kOneRank{ScheduleKind::OneFOneB, 1, 1, 3};

} // namespace

TEST(FunctionCalls, Accumulation) {
  Steps steps(kOneRank);
  EXPECT_EQ(steps.text(0, {kPrologue, kClear, kWhole, kUpdate}),
            "prologue, clear, whole 0, whole 1, whole 2, update");
  EXPECT_EQ(steps.text(0, {kPrologue, kForward, kBackward, kUpdate}),
            "prologue, F 0, B 0, F 1, B 1, F 2, B 2, update");
}

TEST(FunctionCalls, ForwardAlone) {
  EXPECT_EQ(Steps(kOneRank).text(0, {kForward}), "F 0, F 1, F 2");
  EXPECT_EQ(Steps({ScheduleKind::OneFOneB, 2, 1, 2}).text(0, {kForward}),
            "microbatch 0 of chunk 0: no function makes its backward pass, whose messages others "
            "wait for");
}

TEST(FunctionCalls, OnceAStepAlone) {
  EXPECT_EQ(Steps({ScheduleKind::OneFOneB, 1, 1, 1}).text(0, {kPrologue, kForward}),
            "prologue, F 0");
}

/// One call of the schedule, two of functions; and the other way round.
TEST(FunctionCalls, SplitBackward) {
  EXPECT_EQ(Steps(kOneRank).text(0, {kForward, kInputGrad, kWeightGrad}),
            "F 0, I 0, W 0, F 1, I 1, W 1, F 2, I 2, W 2");
  Steps split({ScheduleKind::ZeroBubble, 1, 1, 2});
  EXPECT_EQ(split.text(0, {kForward, kInputGrad, kWeightGrad}), "F 0, I 0, W 0, F 1, I 1, W 1");
  EXPECT_EQ(split.text(0, {kForward, kBackward}), "F 0, B 0, F 1, B 1");
  EXPECT_EQ(split.text(0, {kWhole}), "whole 0, whole 1");
}

/// The last stage gets from activations to gradients in one go, the first one can't.
TEST(FunctionCalls, Pipeline) {
  Steps steps({ScheduleKind::OneFOneB, 2, 1, 2});
  EXPECT_EQ(steps.text(0, {kForward, kBackward, kUpdate}),
            "F 0, > 0, F 1, > 1, < 0, B 0, < 1, B 1, update");
  EXPECT_EQ(steps.text(1, {kForward, kBackward, kUpdate}),
            "< 0, F 0, < 1, B 0, > 0, F 1, B 1, > 1, update");
  EXPECT_EQ(steps.text(1, {kWhole, kUpdate}), "< 0, whole 0, < 1, > 0, whole 1, > 1, update");
  EXPECT_EQ(steps.text(0, {kWhole}), "microbatch 0 of chunk 0: its passes don't follow each other, "
                                     "but one function makes them");
}

/// Messages and slots are those of all the passes of a call.
TEST(FunctionCalls, Boxes) {
  Steps steps({ScheduleKind::OneFOneB, 2, 1, 2});
  FunctionSteps last = steps.of(1, {kWhole});
  ASSERT_EQ(last.error, "");
  const std::vector<Message> &messages = steps.communication.messages;
  int calls = 0;
  for (const FunctionStep &step : last.steps) {
    if (step.action != Step::Action::Call) {
      const Message &message = messages[step.message];
      EXPECT_EQ(step.action == Step::Action::Send ? step.outbox : step.inbox,
                step.action == Step::Action::Send ? message.outbox : message.inbox);
      continue;
    }
    ++calls;
    const auto &made = steps.communication.calls[1];
    EXPECT_EQ(step.inbox, messages[made[2 * step.microbatch].received].inbox);
    EXPECT_EQ(step.outbox, messages[made[2 * step.microbatch + 1].sent].outbox);
    EXPECT_EQ(step.slot, 0);
  }
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(steps.of(0, {kForward, kBackward}).steps[2].slot, 1); // F1
}

TEST(FunctionCalls, ChunksHaveTheirOwn) {
  Steps steps({ScheduleKind::Interleaved, 1, 2, 1});
  StageFunction second = kWhole;
  second.chunk = 1;
  EXPECT_EQ(steps.text(0, {kForward, kBackward, second}), "F 0, whole 0, B 0");
  EXPECT_EQ(steps.text(0, {kForward, kBackward}),
            "microbatch 0 of chunk 1: no function makes its forward pass");
  StageFunction half = kForward;
  half.chunk = 1;
  EXPECT_EQ(steps.text(0, {kForward, kBackward, half}),
            "microbatch 0 of chunk 1: no function makes its input gradients");
}

/// Adjacent calls are not enough where the backward pass waits for another stage.
TEST(FunctionCalls, RefusesABackwardPassThatNeedsAMessage) {
  Steps steps({ScheduleKind::OneFOneB, 2, 1, 1}); // rank 0: F0 B0
  EXPECT_EQ(steps.text(0, {kWhole}), "microbatch 0 of chunk 0: its backward pass needs a message, "
                                     "but is made with its forward pass");
}
