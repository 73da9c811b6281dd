// The checker of messages against steps broken in every way.
#include "dtc/Schedule/Messages.h"

#include <gtest/gtest.h>

#include <utility>

using namespace dtc::schedule;

namespace {

class CheckMessages : public testing::Test {
protected:
  CheckMessages() { communication = communicationOf(schedule, evenTimes(schedule.shape)); }
  std::string error() const { return check(schedule, communication); }
  std::vector<Step> &steps(int rank) { return communication.steps[rank]; }
  Message &message(int index) { return communication.messages[index]; }

  /// Rank 0: F0 > F1 > < B0 < B1, rank 1: < F0 < B0 > F1 B1 >.
  Schedule schedule = *makeSchedule({ScheduleKind::OneFOneB, 2, 1, 2});
  Communication communication;
};

/// One rank holds both stages.
class CheckLocalMessages : public CheckMessages {
protected:
  CheckLocalMessages() {
    schedule = *makeSchedule({ScheduleKind::Interleaved, 1, 2, 2});
    communication = communicationOf(schedule, evenTimes(schedule.shape));
  }
};

} // namespace

TEST_F(CheckMessages, AcceptsWhatIsRight) { EXPECT_EQ(error(), ""); }

TEST_F(CheckMessages, MissingSend) {
  steps(0).erase(steps(0).begin() + 1);
  EXPECT_EQ(error(), "never sent: activations of microbatch 0 from stage 0 to 1");
}

TEST_F(CheckMessages, MissingReceive) {
  steps(1).erase(steps(1).begin() + 2);
  EXPECT_EQ(error(), "never received: activations of microbatch 1 from stage 0 to 1");
}

TEST_F(CheckMessages, ReceivedTwice) {
  steps(1).push_back(steps(1)[0]);
  EXPECT_EQ(error(), "received twice: activations of microbatch 0 from stage 0 to 1");
}

TEST_F(CheckMessages, SentByTheWrongRank) {
  steps(1).push_back(steps(0)[1]);
  EXPECT_EQ(error(), "not for rank 1 to send: activations of microbatch 0 from stage 0 to 1");
}

TEST_F(CheckMessages, StepsOfMessagesThatThereAreNot) {
  steps(0)[1].index = 4;
  EXPECT_EQ(error(), "rank 0 sends or receives a message that there isn't: 4");
}

TEST_F(CheckMessages, CallsInAnotherOrder) {
  std::swap(steps(1)[1], steps(1)[3]);
  EXPECT_EQ(error(), "rank 1 doesn't make its calls in their order");
}

TEST_F(CheckMessages, MissingCall) {
  steps(0).pop_back();
  EXPECT_EQ(error(), "rank 0 doesn't make all of its calls");
}

/// What has no name is matched by its turn.
TEST_F(CheckMessages, ReceivedInAnotherOrder) {
  std::swap(steps(1)[0], steps(1)[2]);
  EXPECT_EQ(error(), "rank 0 sends activations of microbatch 0 from stage 0 to 1, rank 1 receives "
                     "activations of microbatch 1 from stage 0 to 1");
}

/// Rank 0 sends before it receives, and so does rank 1.
TEST_F(CheckMessages, BothSendFirst) {
  std::swap(steps(1)[2], steps(1)[3]); // < F0 B0 < > F1 B1 >
  EXPECT_EQ(error(), "");
  std::swap(steps(1)[3], steps(1)[4]); // < F0 B0 > < F1 B1 >
  EXPECT_EQ(error(), "rank 0 waits for ever to send activations of microbatch 1 from stage 0 to 1");
}

TEST_F(CheckMessages, SentBeforeItIsMade) {
  std::swap(steps(0)[0], steps(0)[1]);
  EXPECT_EQ(error(), "rank 0 waits for ever to send activations of microbatch 0 from stage 0 to 1");
}

TEST_F(CheckMessages, CallBeforeItsMessage) {
  std::swap(steps(1)[0], steps(1)[1]);
  EXPECT_EQ(error(), "rank 0 waits for ever to send activations of microbatch 0 from stage 0 to 1");
}

/// The inbox is taken until the forward call of microbatch 0.
TEST_F(CheckMessages, TwoMessagesInAnInbox) {
  std::swap(steps(1)[1], steps(1)[2]);
  message(1).inbox = 1 - message(0).inbox;
  communication.boxes[1][0].forwardIn = 2;
  EXPECT_EQ(error(), "");
  message(1).inbox = message(0).inbox;
  EXPECT_EQ(error(), "rank 0 waits for ever to send activations of microbatch 1 from stage 0 to 1");
}

TEST_F(CheckMessages, TwoMessagesInAnOutbox) {
  std::swap(steps(0)[1], steps(0)[2]); // F0 F1 > >
  message(1).outbox = 1;
  communication.boxes[0][0].forwardOut = 2;
  EXPECT_EQ(error(), "");
  message(1).outbox = message(0).outbox = 0;
  EXPECT_EQ(error(), "rank 0 waits for ever before its call 1");
}

TEST_F(CheckMessages, BoxesThatThereAreNot) {
  std::string what = "in no box that there is: activations of microbatch 0 from stage 0 to 1";
  for (int32_t Message::*box : {&Message::inbox, &Message::outbox})
    for (int32_t index : {-1, 2}) {
      Communication broken = communication;
      broken.messages[0].*box = index;
      EXPECT_EQ(check(schedule, broken), what);
    }
}

TEST_F(CheckMessages, CallsWithOtherMessages) {
  auto &calls = communication.calls;
  Communication right = communication;
  std::swap(calls[1][0].received, calls[1][2].received);
  EXPECT_EQ(error(), "a call of microbatch 0 between the stages 0 and 1 has the message: "
                     "activations of microbatch 1 from stage 0 to 1");
  communication = right;
  calls[0][0].sent = -1;
  EXPECT_EQ(error(), "a call lacks its message: microbatch 0 from stage 0 to 1");
  communication = right;
  calls[1][0].sent = 0; // the last stage's forward call
  EXPECT_EQ(error(),
            "a call has a message too many: activations of microbatch 0 from stage 0 to 1");
  communication = right;
  calls[1][0].received = 4;
  EXPECT_EQ(error(), "a call has a message that there isn't: 4");
}

TEST_F(CheckMessages, MessagesOfOtherStages) {
  Communication right = communication;
  message(0).toStage = 2;
  EXPECT_EQ(error(), "not between neighbouring stages, or of no microbatch: activations of "
                     "microbatch 0 from stage 0 to 2");
  communication = right;
  message(0).microbatch = 2;
  EXPECT_EQ(error(), "not between neighbouring stages, or of no microbatch: activations of "
                     "microbatch 2 from stage 0 to 1");
  communication = right;
  message(0).toRank = 0;
  EXPECT_EQ(error(), "not between the ranks of its stages: activations of microbatch 0 from "
                     "stage 0 to 1");
}

TEST_F(CheckMessages, TablesThatDoNotFit) {
  Communication right = communication;
  communication.steps.pop_back();
  EXPECT_EQ(error(), "there must be tables of 2 ranks, got 1");
  communication = right;
  communication.calls[1].pop_back();
  EXPECT_EQ(error(), "the tables of rank 1 don't have its calls and chunks");
  communication = right;
  communication.boxes[0].clear();
  EXPECT_EQ(error(), "the tables of rank 0 don't have its calls and chunks");
}

TEST_F(CheckLocalMessages, AreNotSent) {
  EXPECT_EQ(error(), "");
  steps(0).insert(steps(0).begin() + 1, {Step::Action::Send, 0});
  EXPECT_EQ(error(), "not for rank 0 to send: activations of microbatch 0 from stage 0 to 1");
}

TEST_F(CheckLocalMessages, LieInOneBox) {
  communication.boxes[0][1].forwardIn = 2;
  message(0).outbox = 1;
  EXPECT_EQ(error(), "in no box that there is: activations of microbatch 0 from stage 0 to 1");
  message(0).inbox = 1;
  EXPECT_EQ(error(), "");
}

/// Two forward calls hand over before the first is taken.
TEST_F(CheckLocalMessages, ShareNoBox) {
  for (auto &calls : schedule.calls)
    calls = {{Pass::Forward, 0, 0, 0},  {Pass::Forward, 0, 1, 1},  {Pass::Forward, 1, 0, 0},
             {Pass::Forward, 1, 1, 1},  {Pass::Backward, 1, 0, 0}, {Pass::Backward, 0, 0, 0},
             {Pass::Backward, 1, 1, 1}, {Pass::Backward, 0, 1, 1}};
  schedule.slots = {{2, 2}};
  ASSERT_EQ(check(schedule), "");
  communication = communicationOf(schedule, evenTimes(schedule.shape));
  EXPECT_EQ(error(), "");
  EXPECT_EQ(communication.boxes[0][1].forwardIn, 2);
  message(1).inbox = message(1).outbox = 0;
  EXPECT_EQ(error(), "rank 0 waits for ever before its call 1");
}
