// Every rank makes its calls in order; what a call starts and waits for.
#include "dtc/Simulate/Simulate.h"

#include "Passes.h"
#include "Streams.h"

#include "dtc/Schedule/ForwardPasses.h"
#include "dtc/Schedule/Messages.h"

#include <algorithm>
#include <deque>
#include <limits>

namespace dtc::simulate {

using schedule::Call;
using schedule::Pass;
using schedule::Schedule;

namespace {

/// Waits its turn on a communication stream.
struct Job {
  EventKind kind = EventKind::Overlapped;
  int32_t chunk = 0, microbatch = -1;
  double seconds = 0;
};

/// Of one stage and microbatch and direction.
struct Message {
  double sent = -1;    ///< when its call was over; -1: not yet
  double arrived = -1; ///< -1: not yet
  bool isHere() const { return arrived >= 0; }
};

struct Transfer {
  int32_t from = 0, to = 0, chunk = 0, microbatch = 0; ///< chunk of the sender
  bool forward = true;
};

struct RankState {
  size_t next = 0; ///< call that is made, or the next one to be
  enum { Prologue, Calls, Ready, Update, Done } phase = Prologue;
  bool inCall = false;
  bool overlapping = false; ///< the call's overlapped part isn't over
  double callBegin = 0;
  double freeSince = 0; ///< end of the last call
  double sentUntil = 0; ///< end of its transfers, where they block
  int sending = 0;
  std::deque<Job> jobs; ///< the first runs
  std::vector<int64_t> gradientsLeft; ///< by chunk: microbatches
  double bytes = 0;
};

class Simulator {
public:
  Simulator(const Schedule &schedule, const Costs &costs, const Options &options);
  Timeline run();

private:
  const Call &call(int32_t rank) const { return schedule.calls[rank][ranks[rank].next]; }
  const StageCost &cost(int32_t rank, const Call &call) const {
    return costs.stages[schedule.stage(rank, call.chunk)];
  }
  Message &message(bool forward, int64_t stage, int32_t microbatch) {
    return (forward ? activations : gradients)[stage * schedule.shape.microbatches + microbatch];
  }

  bool needsMessage(int64_t stage, Pass pass) const {
    return pass == Pass::Forward ? stage > 0
                                 : pass != Pass::WeightGrad && stage + 1 < schedule.shape.stages();
  }

  void proceed(int32_t rank);
  bool hasRoom(int32_t rank) const;
  void startCall(int32_t rank);
  void finishCall(int32_t rank);
  void send(int32_t rank, const Call &call, bool forward);
  void reduce(int32_t rank, const Call &call, bool during);
  void addJob(int32_t rank, const Job &job);
  void startJob(int32_t rank);
  void finishJob(int32_t rank);
  void finishCompute(int32_t rank);
  void finishTransfer(ActivityId id);
  void becomeReady(int32_t rank);
  void update(int32_t rank);
  void addBytes(int32_t rank, double bytes);
  void record(EventKind kind, int32_t rank, int32_t chunk, int32_t microbatch, double begin,
              int32_t peer = -1);
  void placeMemory();
  Timeline finish();

  const Schedule &schedule;
  const Costs &costs;
  const bool trains;
  Options options;
  Streams streams;
  Timeline timeline;
  std::vector<RankState> ranks;
  /// What a stage waits for, by stage and microbatch: from the stage before
  /// (activations) and from the one after (gradients).
  std::vector<Message> activations, gradients;
  std::vector<Transfer> transfers; ///< by activity
  int64_t ready = 0;               ///< ranks that could update
};

} // namespace

Simulator::Simulator(const Schedule &schedule, const Costs &costs, const Options &options)
    : schedule(schedule), costs(costs), trains(schedule::trains(schedule)), options(options),
      streams(schedule.shape.ranks, costs.slowdown), ranks(schedule.shape.ranks),
      activations(schedule.shape.stages() * schedule.shape.microbatches),
      gradients(activations.size()) {
  timeline.ranks.resize(ranks.size());
  for (RankState &rank : ranks)
    rank.gradientsLeft.assign(schedule.shape.chunks, schedule.shape.microbatches);
}

//===----------------------------------------------------------------------===//
// Records
//===----------------------------------------------------------------------===//

void Simulator::addBytes(int32_t rank, double bytes) {
  if (bytes == 0)
    return;
  RankTimeline &line = timeline.ranks[rank];
  double now = streams.now(), total = ranks[rank].bytes += bytes;
  if (total > line.peakBytes) {
    line.peakBytes = total;
    line.peakSeconds = now;
  }
  if (!options.trace)
    return;
  if (!line.memory.empty() && line.memory.back().seconds == now)
    line.memory.back().bytes = total;
  else
    line.memory.push_back({now, total});
}

void Simulator::record(EventKind kind, int32_t rank, int32_t chunk, int32_t microbatch,
                       double begin, int32_t peer) {
  if (options.trace)
    timeline.events.push_back({kind, rank, chunk,
                               chunk < 0 ? -1 : int32_t(schedule.stage(rank, chunk)), microbatch,
                               peer, begin, streams.now()});
}

//===----------------------------------------------------------------------===//
// Communication streams
//===----------------------------------------------------------------------===//

void Simulator::startJob(int32_t rank) {
  const Job &job = ranks[rank].jobs.front();
  streams.start(streams.communication(rank), job.seconds,
                costs.stages[schedule.stage(rank, job.chunk)].level);
}

void Simulator::addJob(int32_t rank, const Job &job) {
  if (job.seconds == 0)
    return;
  ranks[rank].jobs.push_back(job);
  if (ranks[rank].jobs.size() == 1)
    startJob(rank);
}

void Simulator::finishJob(int32_t rank) {
  RankState &state = ranks[rank];
  Job job = state.jobs.front();
  state.jobs.pop_front();
  record(job.kind, rank, job.chunk, job.microbatch,
         streams.begin(streams.communication(rank)));
  if (!state.jobs.empty())
    startJob(rank);
  if (job.kind == EventKind::Overlapped) {
    state.overlapping = false;
    if (!streams.running(streams.compute(rank)))
      finishCall(rank);
  }
  proceed(rank);
}

/// The sum of a chunk's gradients: the part that may begin with the last
/// microbatch's backward pass, or the rest.
void Simulator::reduce(int32_t rank, const Call &call, bool during) {
  if (call.pass != Pass::Backward && call.pass != Pass::WeightGrad)
    return;
  const StageCost &stage = cost(rank, call);
  int64_t &left = ranks[rank].gradientsLeft[call.chunk];
  if (!during)
    --left;
  if (left != (during ? 1 : 0))
    return;
  double share = during ? stage.reductionOverlap : 1 - stage.reductionOverlap;
  addJob(rank, {EventKind::Reduction, call.chunk, -1, share * stage.reductionSeconds});
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// Whatever can be done next on a rank's compute stream.
void Simulator::proceed(int32_t rank) {
  RankState &state = ranks[rank];
  if (state.phase != RankState::Calls || state.inCall || state.sending > 0)
    return;
  if (state.next < schedule.calls[rank].size())
    startCall(rank);
  else if (state.jobs.empty())
    becomeReady(rank);
}

/// Where no gradients come back, a fast rank runs ahead of the one after it until the boxes on both
/// sides are full. There are two of each, for a call and for what is on its way.
bool Simulator::hasRoom(int32_t rank) const {
  constexpr size_t boxes = 4;
  const schedule::ScheduleShape &shape = schedule.shape;
  if (trains || shape.chunks > 1 || rank + 1 == shape.ranks)
    return true;
  return ranks[rank].next < ranks[rank + 1].next + boxes;
}

void Simulator::startCall(int32_t rank) {
  if (!hasRoom(rank))
    return;
  RankState &state = ranks[rank];
  const Call &made = call(rank);
  const StageCost &stage = cost(rank, made);
  int64_t index = schedule.stage(rank, made.chunk);
  bool forward = made.pass == Pass::Forward;
  double now = streams.now(), free = std::max(state.freeSince, state.sentUntil);
  RankTimeline &line = timeline.ranks[rank];
  if (needsMessage(index, made.pass)) {
    const Message &needed = message(forward, index, made.microbatch);
    if (!needed.isHere())
      return;
    // Idle until what is needed was sent, and on account of communication from then on.
    line.exposedSeconds +=
        std::max(0.0, needed.arrived - std::max(free, std::min(now, needed.sent)));
    const Boundary &boundary = costs.boundaries[forward ? index - 1 : index];
    addBytes(rank, -(forward ? boundary.forwardBytes : boundary.backwardBytes));
  }
  line.exposedSeconds += free - state.freeSince;
  state.inCall = true;
  state.callBegin = now;
  addBytes(rank, (forward ? stage.savedBytes : 0) + transientOf(stage, made.pass));
  Work work = workOf(stage, made.pass);
  state.overlapping = work.overlapped > 0;
  addJob(rank, {EventKind::Overlapped, made.chunk, made.microbatch, work.overlapped});
  reduce(rank, made, true);
  streams.start(streams.compute(rank), work.compute + work.blocking);
}

/// Hands a call's result to the stage that needs it.
void Simulator::send(int32_t rank, const Call &made, bool forward) {
  int64_t from = schedule.stage(rank, made.chunk), to = forward ? from + 1 : from - 1;
  if (to < 0 || to >= schedule.shape.stages())
    return;
  Message &result = message(forward, to, made.microbatch);
  const Boundary &boundary = costs.boundaries[std::min(from, to)];
  double bytes = forward ? boundary.forwardBytes : boundary.backwardBytes;
  result.sent = streams.now();
  auto peer = int32_t(schedule.placement.rank(to));
  addBytes(peer, bytes);
  if (peer == rank || (bytes == 0 && boundary.latency == 0)) {
    result.arrived = result.sent;
    proceed(peer);
    return;
  }
  addBytes(rank, bytes);
  double seconds = bytes > 0 ? bytes / boundary.bandwidth : 0;
  ActivityId id = streams.send(rank, peer, seconds, boundary.level, boundary.latency);
  if (size_t(id) >= transfers.size())
    transfers.resize(id + 1);
  transfers[id] = {rank, peer, made.chunk, made.microbatch, forward};
  ranks[rank].sending += costs.blockingSends;
}

void Simulator::finishTransfer(ActivityId id) {
  Transfer done = transfers[id];
  int64_t from = schedule.stage(done.from, done.chunk), to = done.forward ? from + 1 : from - 1;
  const Boundary &boundary = costs.boundaries[std::min(from, to)];
  record(done.forward ? EventKind::SendForward : EventKind::SendBackward, done.from, done.chunk,
         done.microbatch, streams.begin(id), done.to);
  streams.forget(id);
  addBytes(done.from, -(done.forward ? boundary.forwardBytes : boundary.backwardBytes));
  message(done.forward, to, done.microbatch).arrived = streams.now();
  if (costs.blockingSends) {
    --ranks[done.from].sending;
    ranks[done.from].sentUntil = streams.now();
    proceed(done.from);
  }
  proceed(done.to);
}

void Simulator::finishCall(int32_t rank) {
  RankState &state = ranks[rank];
  const Call &made = call(rank);
  const StageCost &stage = cost(rank, made);
  RankTimeline &line = timeline.ranks[rank];
  double compute = workOf(stage, made.pass).compute;
  line.computeSeconds += compute;
  line.exposedSeconds += std::max(0.0, streams.now() - state.callBegin - compute);
  static constexpr EventKind kinds[] = {EventKind::Forward, EventKind::Backward,
                                        EventKind::InputGrad, EventKind::WeightGrad};
  record(kinds[int(made.pass)], rank, made.chunk, made.microbatch, state.callBegin);
  double stays = made.pass == Pass::Forward     ? 0
                 : made.pass == Pass::Backward  ? -stage.savedBytes
                 : made.pass == Pass::InputGrad ? stage.keptBytes - stage.savedBytes
                                                : -stage.keptBytes;
  addBytes(rank, stays - transientOf(stage, made.pass));
  state.inCall = false;
  state.freeSince = state.sentUntil = streams.now();
  ++state.next;
  reduce(rank, made, false);
  if (made.pass != Pass::WeightGrad)
    send(rank, made, made.pass == Pass::Forward);
  if (!trains && rank > 0)
    proceed(rank - 1); // there is room
}

//===----------------------------------------------------------------------===//
// The end of a step
//===----------------------------------------------------------------------===//

/// All calls are made and all gradients summed.
void Simulator::becomeReady(int32_t rank) {
  RankState &state = ranks[rank];
  timeline.ranks[rank].exposedSeconds += streams.now() - state.freeSince;
  state.phase = RankState::Ready;
  ++ready;
  if (!costs.jointUpdate)
    return update(rank);
  if (ready == schedule.shape.ranks)
    for (int32_t each = 0; each < schedule.shape.ranks; ++each)
      update(each);
}

void Simulator::update(int32_t rank) {
  ranks[rank].phase = RankState::Update;
  addBytes(rank, costs.ranks[rank].updateTransient);
  streams.start(streams.compute(rank), serialSeconds(costs.ranks[rank].update));
}

/// A compute stream is through with the prologue, a call or the update.
void Simulator::finishCompute(int32_t rank) {
  RankState &state = ranks[rank];
  if (state.phase == RankState::Calls) {
    if (!state.overlapping)
      finishCall(rank);
    return proceed(rank);
  }
  bool isUpdate = state.phase == RankState::Update;
  const RankCost &once = costs.ranks[rank];
  const Work &work = isUpdate ? once.update : once.prologue;
  double seconds = serialSeconds(work);
  timeline.ranks[rank].computeSeconds += work.compute;
  timeline.ranks[rank].exposedSeconds += work.blocking + work.overlapped;
  if (seconds > 0)
    record(isUpdate ? EventKind::Update : EventKind::Prologue, rank, -1, -1,
           streams.begin(streams.compute(rank)));
  if (isUpdate) {
    addBytes(rank, -once.updateTransient);
    state.phase = RankState::Done;
    return;
  }
  state.phase = RankState::Calls;
  state.freeSince = state.sentUntil = streams.now();
  proceed(rank);
}

/// A message lies in an outbox of the chunk that makes it until it is sent. It lies in an inbox of
/// the chunk that needs it until that call is over. Programs have as many as even times ask for.
/// Between chunks of one rank it lies in slots.
void Simulator::placeMemory() {
  schedule::Communication made =
      schedule::communicationOf(schedule, schedule::evenTimes(schedule.shape));
  for (int64_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    double messages = 0;
    for (int64_t chunk = 0; chunk < schedule.shape.chunks; ++chunk) {
      int64_t stage = schedule.stage(rank, chunk);
      const schedule::Boxes &boxes = made.boxes[rank][chunk];
      auto isSent = [&](int64_t after) { return !schedule.placement.staysAfter(after); };
      if (stage > 0 && isSent(stage - 1))
        messages += boxes.forwardIn * costs.boundaries[stage - 1].forwardBytes +
                    boxes.backwardOut * costs.boundaries[stage - 1].backwardBytes;
      if (stage + 1 < schedule.shape.stages() && isSent(stage))
        messages += boxes.forwardOut * costs.boundaries[stage].forwardBytes +
                    boxes.backwardIn * costs.boundaries[stage].backwardBytes;
    }
    timeline.ranks[rank].peakBytes = placedBytes(schedule, costs, rank, messages);
  }
}

Timeline Simulator::finish() {
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank)
    if (ranks[rank].phase != RankState::Done) {
      Timeline failed;
      failed.error = "rank " + std::to_string(rank) + " waits for ever before call " +
                     std::to_string(ranks[rank].next);
      failed.stepSeconds = std::numeric_limits<double>::infinity();
      return failed;
    }
  timeline.stepSeconds = streams.now();
  if (isPlaced(schedule, costs))
    placeMemory();
  double idle = 0;
  for (RankTimeline &line : timeline.ranks) {
    line.idleSeconds =
        std::max(0.0, timeline.stepSeconds - line.computeSeconds - line.exposedSeconds);
    idle += line.idleSeconds;
    timeline.exposedSeconds += line.exposedSeconds;
  }
  auto count = double(timeline.ranks.size());
  timeline.exposedSeconds /= count;
  if (timeline.stepSeconds > 0)
    timeline.bubbleFraction = idle / (count * timeline.stepSeconds);
  std::stable_sort(timeline.events.begin(), timeline.events.end(),
                   [](const Event &a, const Event &b) { return a.begin < b.begin; });
  return std::move(timeline);
}

Timeline Simulator::run() {
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    addBytes(rank, costs.ranks[rank].staticBytes);
    streams.start(streams.compute(rank), serialSeconds(costs.ranks[rank].prologue));
  }
  for (ActivityId id; (id = streams.advance()) >= 0;) {
    if (streams.isCompute(id))
      finishCompute(streams.rankOf(id));
    else if (streams.isCommunication(id))
      finishJob(streams.rankOf(id));
    else
      finishTransfer(id);
  }
  return finish();
}

/// Lists that would lead out of the tables.
static std::string checkTables(const Schedule &schedule) {
  if (schedule.placement.ranks() != schedule.shape.ranks ||
      schedule.placement.chunks() != schedule.shape.chunks)
    return "the placement must be of " + std::to_string(schedule.shape.ranks) + " x " +
           std::to_string(schedule.shape.chunks) + " stages";
  if (std::string error = schedule::check(schedule.placement); !error.empty())
    return error;
  if (int64_t(schedule.calls.size()) != schedule.shape.ranks)
    return "there must be a list of calls for each rank, got " +
           std::to_string(schedule.calls.size());
  for (const std::vector<Call> &calls : schedule.calls)
    for (const Call &call : calls)
      if (call.chunk < 0 || call.chunk >= schedule.shape.chunks || call.microbatch < 0 ||
          call.microbatch >= schedule.shape.microbatches || call.pass > Pass::WeightGrad)
        return "a call's chunk or microbatch is out of range: chunk " +
               std::to_string(call.chunk) + ", microbatch " + std::to_string(call.microbatch);
  return "";
}

Timeline simulate(const Schedule &schedule, const Costs &costs, const Options &options) {
  std::string error = schedule::impossibleSize(schedule.shape);
  if (error.empty())
    error = checkCosts(schedule.shape, costs);
  if (error.empty())
    error = checkTables(schedule);
  if (!error.empty()) {
    Timeline failed;
    failed.error = error;
    failed.stepSeconds = std::numeric_limits<double>::infinity();
    return failed;
  }
  return Simulator(schedule, costs, options).run();
}

} // namespace dtc::simulate
