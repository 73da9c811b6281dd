#include "dtc/Schedule/Messages.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>

namespace dtc::schedule {

StepTimes evenTimes(const ScheduleShape &shape) {
  auto stages = size_t(shape.stages()), ranks = size_t(shape.ranks);
  auto all = [](size_t count, double seconds) { return std::vector<double>(count, seconds); };
  return {.forward = all(stages, 1),
          .backward = all(stages, 1),
          .weights = all(stages, 1),
          .sendForward = all(stages - 1, 0.25),
          .sendBackward = all(stages - 1, 0.25),
          .prologue = all(ranks, 0),
          .reduction = all(ranks, 0),
          .update = all(ranks, 0)};
}

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Boxes of one chunk and direction: when each is free again.
class BoxPool {
public:
  /// The first that is free at a moment, from then on taken.
  int32_t take(double now) {
    auto box = std::find_if(freeAt.begin(), freeAt.end(), [&](double at) { return at <= now; });
    if (box == freeAt.end())
      box = freeAt.insert(box, kNever);
    *box = kNever;
    return int32_t(box - freeAt.begin());
  }
  void release(int32_t box, double at) { freeAt[box] = at; }
  int32_t count() const { return int32_t(freeAt.size()); }

private:
  std::vector<double> freeAt;
};

/// Carries a step out in time. Calls come in the order in which they begin, each message before the
/// first call that begins once it can be sent.
class Orderer {
public:
  Orderer(const Schedule &schedule, const StepTimes &times);
  Communication run();

private:
  struct Arrival {
    double seconds = kNever;
    int32_t message = -1;
  };
  /// Something at a moment; of equal ones the first that was found.
  struct Moment {
    double seconds;
    int64_t order;
    int32_t index; ///< rank or message
    bool operator>(const Moment &other) const {
      return seconds != other.seconds ? seconds > other.seconds : order > other.order;
    }
  };
  using Moments = std::priority_queue<Moment, std::vector<Moment>, std::greater<>>;

  double secondsOf(const Call &call, int64_t stage) const;
  Arrival &arrival(bool forward, int64_t stage, int32_t microbatch) {
    return arrivals[forward][stage * schedule.shape.microbatches + microbatch];
  }
  BoxPool &pool(bool outbox, bool forward, int64_t stage) { return pools[outbox][forward][stage]; }
  void findReady(int32_t rank);
  void makeCall(int32_t rank, double begin);
  void makeMessage(int32_t rank, const Call &call, double begin, double end);
  void order(double until);

  const Schedule &schedule;
  const StepTimes &times;
  Communication result;
  std::vector<size_t> next;         ///< by rank: its call
  std::vector<bool> waits;          ///< by rank: the next call isn't known to be ready
  std::vector<double> free;         ///< by rank
  std::vector<Arrival> arrivals[2]; ///< by direction, then stage and microbatch that needs it
  std::vector<BoxPool> pools[2][2]; ///< by kind, direction and stage
  std::vector<Message> made;        ///< as they are made
  std::vector<int32_t> positions;   ///< of these: in the order of messages
  Moments ready;                    ///< ranks, by when their next call may begin
  Moments sendable;                 ///< messages
  int64_t found = 0;
};

} // namespace

Orderer::Orderer(const Schedule &schedule, const StepTimes &times)
    : schedule(schedule), times(times), next(schedule.shape.ranks, 0),
      waits(schedule.shape.ranks, true), free(times.prologue) {
  const ScheduleShape &shape = schedule.shape;
  for (bool forward : {false, true}) {
    arrivals[forward].resize(shape.stages() * shape.microbatches);
    for (bool outbox : {false, true})
      pools[outbox][forward].resize(shape.stages());
  }
  result.steps.resize(shape.ranks);
  result.boxes.assign(shape.ranks, std::vector<Boxes>(shape.chunks));
  for (const std::vector<Call> &calls : schedule.calls)
    result.calls.emplace_back(calls.size());
}

double Orderer::secondsOf(const Call &call, int64_t stage) const {
  switch (call.pass) {
  case Pass::Forward:
    return times.forward[stage];
  case Pass::Backward:
    return times.backward[stage] + times.weights[stage];
  case Pass::InputGrad:
    return times.backward[stage];
  case Pass::WeightGrad:
    return times.weights[stage];
  }
  return 0;
}

/// Whether a call of a stage needs a message, and from which stage.
static std::optional<int64_t> sourceOf(const Call &call, int64_t stage, int64_t stages) {
  if (call.pass == Pass::Forward)
    return stage > 0 ? std::optional(stage - 1) : std::nullopt;
  bool needs = call.pass != Pass::WeightGrad && stage + 1 < stages;
  return needs ? std::optional(stage + 1) : std::nullopt;
}

/// To which stage a call hands its result.
static std::optional<int64_t> targetOf(const Call &call, int64_t stage, int64_t stages) {
  if (call.pass == Pass::Forward)
    return stage + 1 < stages ? std::optional(stage + 1) : std::nullopt;
  return call.pass != Pass::WeightGrad && stage > 0 ? std::optional(stage - 1) : std::nullopt;
}

void Orderer::findReady(int32_t rank) {
  if (!waits[rank] || next[rank] == schedule.calls[rank].size())
    return;
  const Call &call = schedule.calls[rank][next[rank]];
  int64_t stage = schedule.stage(rank, call.chunk);
  double begin = free[rank];
  if (sourceOf(call, stage, schedule.shape.stages()))
    begin = std::max(begin, arrival(call.pass == Pass::Forward, stage, call.microbatch).seconds);
  if (begin == kNever)
    return;
  waits[rank] = false;
  ready.push({begin, found++, rank});
}

void Orderer::makeMessage(int32_t rank, const Call &call, double begin, double end) {
  int64_t stage = schedule.stage(rank, call.chunk);
  std::optional<int64_t> target = targetOf(call, stage, schedule.shape.stages());
  if (!target)
    return;
  bool forward = call.pass == Pass::Forward;
  Message message{int32_t(stage), int32_t(*target), rank, int32_t(schedule.placement.rank(*target)),
                  call.microbatch};
  double sending = forward ? times.sendForward[stage] : times.sendBackward[*target];
  double there = end + (message.isLocal() ? 0 : sending);
  auto id = int32_t(made.size());
  if (!message.isLocal()) {
    message.outbox = pool(true, forward, stage).take(begin);
    pool(true, forward, stage).release(message.outbox, there);
  } else {
    message.inbox = message.outbox = pool(false, forward, *target).take(begin);
  }
  made.push_back(message);
  positions.push_back(-1);
  arrival(forward, *target, call.microbatch) = {there, id};
  result.calls[rank][next[rank]].sent = id;
  sendable.push({end, found++, id});
  findReady(message.toRank);
}

void Orderer::makeCall(int32_t rank, double begin) {
  const Call &call = schedule.calls[rank][next[rank]];
  int64_t stage = schedule.stage(rank, call.chunk);
  bool forward = call.pass == Pass::Forward;
  double end = begin + secondsOf(call, stage);
  result.steps[rank].push_back({Step::Action::Call, int32_t(next[rank])});
  free[rank] = end;
  if (sourceOf(call, stage, schedule.shape.stages())) {
    int32_t id = arrival(forward, stage, call.microbatch).message;
    result.calls[rank][next[rank]].received = id;
    pool(false, forward, stage).release(made[id].inbox, end);
  }
  makeMessage(rank, call, begin, end);
  ++next[rank];
  waits[rank] = true;
  findReady(rank);
}

/// Messages that can be sent by then.
void Orderer::order(double until) {
  while (!sendable.empty() && sendable.top().seconds <= until) {
    Moment moment = sendable.top();
    sendable.pop();
    Message &message = made[moment.index];
    positions[moment.index] = int32_t(result.messages.size());
    if (!message.isLocal()) {
      message.inbox = pool(false, message.isForward(), message.toStage).take(moment.seconds);
      result.steps[message.fromRank].push_back({Step::Action::Send, positions[moment.index]});
      result.steps[message.toRank].push_back({Step::Action::Receive, positions[moment.index]});
    }
    result.messages.push_back(message);
  }
}

Communication Orderer::run() {
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank)
    findReady(rank);
  while (!ready.empty()) {
    Moment moment = ready.top();
    ready.pop();
    order(moment.seconds);
    makeCall(moment.index, moment.seconds);
  }
  for (std::vector<CallMessages> &calls : result.calls)
    for (CallMessages &call : calls)
      for (int32_t *id : {&call.received, &call.sent})
        *id = *id < 0 ? -1 : positions[*id];
  for (int64_t stage = 0; stage < schedule.shape.stages(); ++stage) {
    Place place = schedule.placement.place(stage);
    result.boxes[place.rank][place.chunk] = {
        pool(false, true, stage).count(), pool(true, true, stage).count(),
        pool(false, false, stage).count(), pool(true, false, stage).count()};
  }
  return std::move(result);
}

Communication communicationOf(const Schedule &schedule, const StepTimes &times) {
  return Orderer(schedule, times).run();
}

} // namespace dtc::schedule
