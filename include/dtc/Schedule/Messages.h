// The messages of a schedule, in an order that is fixed when programs are compiled.
//
// What a stage hands to a neighbour for one microbatch is one message. Activations go to the stage
// after it, their gradients to the stage before it. A value that is needed several stages later is
// part of each message in between, as the stages in between pass it on. 1F1B with two ranks and two
// microbatches, where < and > are the two ends of a message:
//
//   rank 0   F0 >    F1 >         < B0         < B1
//   rank 1      < F0    < B0      >    F1  B1  >
//
// Libraries that send (NCCL) know no names of messages. The n-th message that a rank sends to
// another is the n-th that this one receives from it. And a send may wait until the other rank
// receives (rendezvous). So all messages of a step have one order, in which every rank sends and
// receives its own between its calls. Together with the calls it is an order in which the step can
// be carried out one thing at a time. Therefore nothing waits for ever. This holds for a rank that
// does all of its steps in a row. One with queues of its own for calls, sends and receives waits
// for less.
//
// A message first lies in an outbox of the sending chunk, from the beginning of the
// call that makes it until it is sent. From then on it lies in an inbox of the
// receiving chunk, until the call that needs it is over. Boxes are numbered for each chunk and
// direction. A message between chunks of one rank isn't sent: its outbox is its inbox.
#pragma once

#include "dtc/Schedule/Bounds.h"
#include "dtc/Schedule/Schedule.h"

namespace dtc::schedule {

struct Message {
  int32_t fromStage = 0, toStage = 0; ///< neighbours
  int32_t fromRank = 0, toRank = 0;
  int32_t microbatch = 0;
  int32_t outbox = 0, inbox = 0;
  bool isForward() const { return fromStage < toStage; }
  bool isLocal() const { return fromRank == toRank; }
  bool operator==(const Message &) const = default;
};

/// What a rank does next.
struct Step {
  enum class Action : uint8_t { Call, Send, Receive };
  Action action = Action::Call;
  int32_t index = 0; ///< in Schedule::calls of the rank, or in Communication::messages
  bool operator==(const Step &) const = default;
};

/// The message that a call needs and the one that it makes; -1: none.
struct CallMessages {
  int32_t received = -1, sent = -1;
  bool operator==(const CallMessages &) const = default;
};

/// How many boxes a chunk has for activations (forward) and for gradients (backward).
struct Boxes {
  int32_t forwardIn = 0, forwardOut = 0, backwardIn = 0, backwardOut = 0;
  bool operator==(const Boxes &) const = default;
};

struct Communication {
  std::vector<Message> messages;                ///< in their order
  std::vector<std::vector<Step>> steps;         ///< by rank
  std::vector<std::vector<CallMessages>> calls; ///< by rank and call
  std::vector<std::vector<Boxes>> boxes;        ///< by rank and chunk
  bool operator==(const Communication &) const = default;
};

/// All stages alike, a backward pass twice as long as a forward pass, and a message
/// a quarter of it.
StepTimes evenTimes(const ScheduleShape &shape);

/// Orders the messages by when they are there to be sent, if calls and messages take these times.
/// There are as many boxes as it takes for no call to wait for one. The schedule is one that
/// `check` accepts. Other times on the day cost time, not correctness.
Communication communicationOf(const Schedule &schedule, const StepTimes &times);

/// Carries out the steps of all ranks with sends that wait for their receives. It does so once with
/// everything of a rank in a row, once with queues of its own for calls, sends and receives. It
/// shares no code with those that order them. Empty, or in one line the first call that finds
/// something else in its inbox, or what waits for ever.
std::string check(const Schedule &schedule, const Communication &communication);

} // namespace dtc::schedule
