// Carries out the steps of all ranks, and looks for what is wrong with them.
#include "dtc/Schedule/Messages.h"

#include <cstdlib>

namespace dtc::schedule {

namespace {

std::string text(int64_t value) { return std::to_string(value); }

std::string describe(const Message &message) {
  return std::string(message.isForward() ? "activations" : "gradients") + " of microbatch " +
         text(message.microbatch) + " from stage " + text(message.fromStage) + " to " +
         text(message.toStage);
}

/// Whether all is there that is spoken of, once each: tables, ranges, ends of messages.
class TableChecker {
public:
  TableChecker(const Schedule &schedule, const Communication &communication)
      : schedule(schedule), shape(schedule.shape), communication(communication) {}
  std::string run() const;

private:
  std::string sizes() const;
  std::string message(const Message &message) const;
  std::string steps(int64_t rank, std::vector<int> &ends) const;
  std::string call(int64_t rank, const Call &call, const CallMessages &messages) const;
  std::string end(int32_t id, int64_t from, int64_t to, int32_t microbatch) const;

  const Schedule &schedule;
  const ScheduleShape &shape;
  const Communication &communication;
};

} // namespace

std::string TableChecker::sizes() const {
  for (size_t size :
       {communication.steps.size(), communication.calls.size(), communication.boxes.size()})
    if (int64_t(size) != shape.ranks)
      return "there must be tables of " + text(shape.ranks) + " ranks, got " + text(int64_t(size));
  for (int64_t rank = 0; rank < shape.ranks; ++rank)
    if (communication.calls[rank].size() != schedule.calls[rank].size() ||
        int64_t(communication.boxes[rank].size()) != shape.chunks)
      return "the tables of rank " + text(rank) + " don't have its calls and chunks";
  return "";
}

std::string TableChecker::message(const Message &message) const {
  auto isStage = [&](int32_t stage) { return stage >= 0 && stage < shape.stages(); };
  if (!isStage(message.fromStage) || !isStage(message.toStage) ||
      std::abs(message.fromStage - message.toStage) != 1 || message.microbatch < 0 ||
      message.microbatch >= shape.microbatches)
    return "not between neighbouring stages, or of no microbatch: " + describe(message);
  Place from = schedule.placement.place(message.fromStage);
  Place to = schedule.placement.place(message.toStage);
  if (message.fromRank != from.rank || message.toRank != to.rank)
    return "not between the ranks of its stages: " + describe(message);
  const Boxes &out = communication.boxes[from.rank][from.chunk];
  const Boxes &in = communication.boxes[to.rank][to.chunk];
  int32_t inboxes = message.isForward() ? in.forwardIn : in.backwardIn;
  int32_t outboxes = message.isForward() ? out.forwardOut : out.backwardOut;
  if (message.inbox < 0 || message.inbox >= inboxes || message.outbox < 0 ||
      (message.isLocal() ? message.outbox != message.inbox : message.outbox >= outboxes))
    return "in no box that there is: " + describe(message);
  return "";
}

/// `ends`: of each message, how many of its ends were found so far.
std::string TableChecker::steps(int64_t rank, std::vector<int> &ends) const {
  int32_t next = 0;
  for (const Step &step : communication.steps[rank]) {
    if (step.action == Step::Action::Call) {
      if (step.index != next++)
        return "rank " + text(rank) + " doesn't make its calls in their order";
      continue;
    }
    if (step.index < 0 || step.index >= int32_t(communication.messages.size()))
      return "rank " + text(rank) +
             " sends or receives a message that there isn't: " + text(step.index);
    const Message &message = communication.messages[step.index];
    bool sends = step.action == Step::Action::Send;
    if (message.isLocal() || (sends ? message.fromRank : message.toRank) != rank)
      return "not for rank " + text(rank) + " to " + (sends ? "send: " : "receive: ") +
             describe(message);
    int bit = sends ? 1 : 2;
    if (ends[step.index] & bit)
      return std::string(sends ? "sent" : "received") + " twice: " + describe(message);
    ends[step.index] |= bit;
  }
  return next == int32_t(schedule.calls[rank].size())
             ? ""
             : "rank " + text(rank) + " doesn't make all of its calls";
}

/// Whether a call's message is the one between these stages; no message: from -1.
std::string TableChecker::end(int32_t id, int64_t from, int64_t to, int32_t microbatch) const {
  if (id < -1 || id >= int32_t(communication.messages.size()))
    return "a call has a message that there isn't: " + text(id);
  if ((id < 0) != (from < 0))
    return from < 0 ? "a call has a message too many: " + describe(communication.messages[id])
                    : "a call lacks its message: microbatch " + text(microbatch) + " from stage " +
                          text(from) + " to " + text(to);
  if (id < 0)
    return "";
  const Message &message = communication.messages[id];
  if (message.fromStage != from || message.toStage != to || message.microbatch != microbatch)
    return "a call of microbatch " + text(microbatch) + " between the stages " + text(from) +
           " and " + text(to) + " has the message: " + describe(message);
  return "";
}

std::string TableChecker::call(int64_t rank, const Call &call, const CallMessages &messages) const {
  int64_t stage = schedule.stage(rank, call.chunk), onwards = call.pass == Pass::Forward ? 1 : -1;
  auto exists = [&](int64_t other) {
    return call.pass != Pass::WeightGrad && other >= 0 && other < shape.stages();
  };
  int64_t before = exists(stage - onwards) ? stage - onwards : -1;
  std::string error = end(messages.received, before, stage, call.microbatch);
  if (!error.empty())
    return error;
  bool sends = exists(stage + onwards);
  return end(messages.sent, sends ? stage : -1, stage + onwards, call.microbatch);
}

std::string TableChecker::run() const {
  std::string error = sizes();
  for (size_t i = 0; error.empty() && i < communication.messages.size(); ++i)
    error = message(communication.messages[i]);
  std::vector<int> ends(communication.messages.size(), 0);
  for (int64_t rank = 0; error.empty() && rank < shape.ranks; ++rank)
    error = steps(rank, ends);
  for (size_t i = 0; error.empty() && i < ends.size(); ++i)
    if (!communication.messages[i].isLocal() && ends[i] != 3)
      error = std::string("never ") + (ends[i] & 1 ? "received: " : "sent: ") +
              describe(communication.messages[i]);
  for (int64_t rank = 0; error.empty() && rank < shape.ranks; ++rank)
    for (size_t i = 0; error.empty() && i < schedule.calls[rank].size(); ++i)
      error = call(rank, schedule.calls[rank][i], communication.calls[rank][i]);
  return error;
}

namespace {

/// All ranks at work, each with one queue or with one for each kind of step. The first
/// step of a queue waits until what it needs is there.
class MessageReplay {
public:
  MessageReplay(const Schedule &schedule, const Communication &communication, bool inRow);
  std::string run();

private:
  struct Queue {
    std::vector<Step> steps;
    size_t next = 0;
    const Step *head() const { return next < steps.size() ? &steps[next] : nullptr; }
  };
  /// The message in a box, or -1.
  int32_t &inbox(const Message &message) {
    return inboxes[message.isForward()][message.toStage][message.inbox];
  }
  int32_t &outbox(const Message &message) {
    return message.isLocal() ? inbox(message)
                             : outboxes[message.isForward()][message.fromStage][message.outbox];
  }
  Queue &queue(int64_t rank, Step::Action action) {
    return queues[rank][inRow ? 0 : size_t(action)];
  }
  bool makeCall(int64_t rank, int32_t index);
  bool send(int64_t rank, int32_t id);
  bool proceed(int64_t rank, Queue &queue);
  std::string stuck() const;

  const Communication &communication;
  bool inRow;
  std::vector<std::vector<Queue>> queues;                    ///< by rank
  std::vector<std::vector<int32_t>> inboxes[2], outboxes[2]; ///< by direction, stage and box
  std::string error;
};

} // namespace

MessageReplay::MessageReplay(const Schedule &schedule, const Communication &communication,
                             bool inRow)
    : communication(communication), inRow(inRow),
      queues(schedule.calls.size(), std::vector<Queue>(inRow ? 1 : 3)) {
  for (size_t rank = 0; rank < queues.size(); ++rank)
    for (const Step &step : communication.steps[rank])
      queue(int64_t(rank), step.action).steps.push_back(step);
  for (int64_t stage = 0; stage < schedule.shape.stages(); ++stage) {
    Place place = schedule.placement.place(stage);
    const Boxes &boxes = communication.boxes[place.rank][place.chunk];
    inboxes[0].emplace_back(boxes.backwardIn, -1);
    inboxes[1].emplace_back(boxes.forwardIn, -1);
    outboxes[0].emplace_back(boxes.backwardOut, -1);
    outboxes[1].emplace_back(boxes.forwardOut, -1);
  }
}

bool MessageReplay::makeCall(int64_t rank, int32_t index) {
  auto [received, sent] = communication.calls[rank][index];
  if (received >= 0) {
    int32_t there = inbox(communication.messages[received]);
    if (there >= 0 && there != received)
      error = "rank " + text(rank) + " needs " + describe(communication.messages[received]) +
              ", in the inbox lie " + describe(communication.messages[there]);
    if (there != received)
      return false;
  }
  if (sent >= 0 && outbox(communication.messages[sent]) >= 0)
    return false;
  if (received >= 0)
    inbox(communication.messages[received]) = -1;
  if (sent >= 0)
    outbox(communication.messages[sent]) = sent;
  return true;
}

/// Once the other rank has come to receive from this one.
bool MessageReplay::send(int64_t rank, int32_t id) {
  const Message &message = communication.messages[id];
  int32_t there = outbox(message);
  if (there >= 0 && there != id)
    error = "rank " + text(rank) + " sends " + describe(message) + ", in the outbox lie " +
            describe(communication.messages[there]);
  if (there != id)
    return false;
  Queue &peer = queue(message.toRank, Step::Action::Receive);
  const Step *step = peer.head();
  if (!step || step->action != Step::Action::Receive)
    return false;
  const Message &expected = communication.messages[step->index];
  if (expected.fromRank != rank)
    return false;
  if (step->index != id) {
    error = "rank " + text(rank) + " sends " + describe(message) + ", rank " +
            text(message.toRank) + " receives " + describe(expected);
    return false;
  }
  if (inbox(message) >= 0)
    return false;
  outbox(message) = -1;
  inbox(message) = id;
  ++peer.next;
  return true;
}

bool MessageReplay::proceed(int64_t rank, Queue &queue) {
  bool any = false;
  for (const Step *step; error.empty() && (step = queue.head());) {
    bool done = step->action == Step::Action::Call   ? makeCall(rank, step->index)
                : step->action == Step::Action::Send ? send(rank, step->index)
                                                     : false; // its sender does it
    if (!done)
      return any;
    ++queue.next;
    any = true;
  }
  return any;
}

std::string MessageReplay::stuck() const {
  for (size_t rank = 0; rank < queues.size(); ++rank)
    for (const Queue &queue : queues[rank])
      if (const Step *step = queue.head()) {
        std::string who = "rank " + text(int64_t(rank)) + " waits for ever ";
        if (step->action == Step::Action::Call)
          return who + "before its call " + text(step->index);
        return who + (step->action == Step::Action::Send ? "to send " : "to receive ") +
               describe(communication.messages[step->index]);
      }
  return "";
}

std::string MessageReplay::run() {
  for (bool any = true; any && error.empty();) {
    any = false;
    for (size_t rank = 0; rank < queues.size(); ++rank)
      for (Queue &queue : queues[rank])
        any |= proceed(int64_t(rank), queue);
  }
  return error.empty() ? stuck() : error;
}

std::string check(const Schedule &schedule, const Communication &communication) {
  std::string error = TableChecker(schedule, communication).run();
  for (bool inRow : {true, false})
    if (error.empty())
      error = MessageReplay(schedule, communication, inRow).run();
  return error;
}

} // namespace dtc::schedule
