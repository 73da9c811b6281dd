// Carries a schedule out, call by call, and looks for what is wrong.
#include "dtc/Schedule/ForwardPasses.h"

namespace dtc::schedule {

namespace {

const char *nameOf(Pass pass) {
  switch (pass) {
  case Pass::Forward:
    return "forward";
  case Pass::Backward:
    return "backward";
  case Pass::InputGrad:
    return "input gradient";
  case Pass::WeightGrad:
    return "weight gradient";
  }
  return "unknown pass";
}

class Checker {
public:
  explicit Checker(const Schedule &schedule)
      : schedule(schedule), shape(schedule.shape), trains(schedule::trains(schedule)) {}
  std::string run();

private:
  /// How far a microbatch has come in a stage.
  enum class State : uint8_t { Untouched, Kept, InputDone, Over };

  std::string sizes() const;
  bool inRange(int64_t rank, const Call &call) const;
  bool ready(int64_t rank, const Call &call) const;
  std::string carryOut(int64_t rank, const Call &call);
  std::string takeSlot(int64_t rank, const Call &call);
  void leaveSlot(int64_t rank, const Call &call);
  std::string addGradients(int64_t rank, const Call &call);
  std::string stuck() const;
  std::string describe(int64_t rank, const Call &call) const;
  State &state(int64_t stage, int64_t microbatch) {
    return states[stage * shape.microbatches + microbatch];
  }
  State state(int64_t stage, int64_t microbatch) const {
    return states[stage * shape.microbatches + microbatch];
  }

  const Schedule &schedule;
  const ScheduleShape &shape;
  const bool trains;
  std::vector<State> states; ///< by stage and microbatch
  /// By rank, chunk and slot: the microbatch it holds, or -1.
  std::vector<std::vector<std::vector<int32_t>>> holders;
  std::vector<int32_t> added; ///< by stage: the last microbatch whose gradients are added, or -1
  std::vector<size_t> next;   ///< by rank: calls carried out
};

} // namespace

std::string Checker::describe(int64_t rank, const Call &call) const {
  return std::string(nameOf(call.pass)) + " of chunk " + std::to_string(call.chunk) +
         ", microbatch " + std::to_string(call.microbatch) + ", slot " +
         std::to_string(call.slot) + " on rank " + std::to_string(rank);
}

std::string Checker::sizes() const {
  if (shape.ranks < 1 || shape.chunks < 1 || shape.microbatches < 1)
    return "ranks, chunks and microbatches must be positive";
  if (schedule.placement.ranks() != shape.ranks || schedule.placement.chunks() != shape.chunks)
    return "the placement must be of " + std::to_string(shape.ranks) + " x " +
           std::to_string(shape.chunks) + " stages, got " +
           std::to_string(schedule.placement.ranks()) + " x " +
           std::to_string(schedule.placement.chunks());
  if (std::string error = check(schedule.placement); !error.empty())
    return error;
  if (int64_t(schedule.calls.size()) != shape.ranks)
    return "there must be a list of calls for each rank, got " +
           std::to_string(schedule.calls.size());
  if (int64_t(schedule.slots.size()) != shape.ranks)
    return "there must be numbers of slots for each rank, got " +
           std::to_string(schedule.slots.size());
  for (int64_t rank = 0; rank < shape.ranks; ++rank) {
    if (int64_t(schedule.slots[rank].size()) != shape.chunks)
      return "each chunk of rank " + std::to_string(rank) + " must have a number of slots, got " +
             std::to_string(schedule.slots[rank].size());
    for (int32_t count : schedule.slots[rank])
      if (count < 0 || count > shape.microbatches)
        return "rank " + std::to_string(rank) + " can't have so many slots: " +
               std::to_string(count);
    // Two or three passes of each microbatch and chunk; guards the sizes below too.
    if (int64_t(schedule.calls[rank].size()) / shape.chunks < shape.microbatches)
      return "rank " + std::to_string(rank) + " has too few calls: " +
             std::to_string(schedule.calls[rank].size());
  }
  return "";
}

bool Checker::inRange(int64_t rank, const Call &call) const {
  return call.chunk >= 0 && call.chunk < shape.chunks && call.microbatch >= 0 &&
         call.microbatch < shape.microbatches && call.slot >= 0 &&
         call.slot < schedule.slots[rank][call.chunk];
}

/// Whether what comes from other stages is there.
bool Checker::ready(int64_t rank, const Call &call) const {
  int64_t stage = schedule.stage(rank, call.chunk);
  if (call.pass == Pass::Forward)
    return stage == 0 || state(stage - 1, call.microbatch) != State::Untouched;
  if (call.pass == Pass::WeightGrad || stage + 1 == shape.stages())
    return true;
  State after = state(stage + 1, call.microbatch);
  return after == State::InputDone || after == State::Over;
}

std::string Checker::takeSlot(int64_t rank, const Call &call) {
  int32_t &holder = holders[rank][call.chunk][call.slot];
  if (call.pass == Pass::Forward) {
    if (holder >= 0)
      return "slot still holds microbatch " + std::to_string(holder) + ": " +
             describe(rank, call);
    holder = call.microbatch;
    if (!trains)
      leaveSlot(rank, call);
  } else {
    if (holder != call.microbatch)
      return "slot doesn't hold the microbatch: " + describe(rank, call);
    if (call.pass != Pass::InputGrad)
      holder = -1;
  }
  return "";
}

/// Without a backward pass, a slot is held until the next stage has what it needs. It is sent by
/// then to another rank, or read by that stage's call on the same one.
void Checker::leaveSlot(int64_t rank, const Call &call) {
  int64_t stage = schedule.stage(rank, call.chunk);
  auto isHere = [&](int64_t other) {
    return other >= 0 && other < shape.stages() && schedule.placement.rank(other) == rank;
  };
  auto &slots = holders[rank];
  if (!isHere(stage + 1))
    slots[call.chunk][call.slot] = -1;
  if (isHere(stage - 1))
    for (int32_t &before : slots[schedule.placement.place(stage - 1).chunk])
      if (before == call.microbatch)
        before = -1;
}

/// The order of additions decides how sums are rounded.
std::string Checker::addGradients(int64_t rank, const Call &call) {
  if (call.pass == Pass::Forward || call.pass == Pass::InputGrad)
    return "";
  int32_t &last = added[schedule.stage(rank, call.chunk)];
  if (call.microbatch < last)
    return "gradients are added after those of microbatch " + std::to_string(last) + ": " +
           describe(rank, call);
  last = call.microbatch;
  return "";
}

std::string Checker::carryOut(int64_t rank, const Call &call) {
  State &current = state(schedule.stage(rank, call.chunk), call.microbatch);
  State expected = call.pass == Pass::Forward      ? State::Untouched
                   : call.pass == Pass::WeightGrad ? State::InputDone
                                                   : State::Kept;
  if (current != expected)
    return (current == State::Over || (call.pass == Pass::Forward) ||
                    (call.pass == Pass::InputGrad && current == State::InputDone)
                ? "made twice: "
                : "made too early: ") +
           describe(rank, call);
  current = call.pass == Pass::Forward     ? (trains ? State::Kept : State::Over)
            : call.pass == Pass::InputGrad ? State::InputDone
                                           : State::Over;
  std::string error = takeSlot(rank, call);
  return error.empty() ? addGradients(rank, call) : error;
}

/// Names the first call that never became ready, or the first that is missing.
std::string Checker::stuck() const {
  for (int64_t rank = 0; rank < shape.ranks; ++rank)
    if (next[rank] < schedule.calls[rank].size())
      return "waits for ever: " + describe(rank, schedule.calls[rank][next[rank]]);
  for (int64_t stage = 0; stage < shape.stages(); ++stage)
    for (int64_t m = 0; m < shape.microbatches; ++m)
      if (state(stage, m) != State::Over)
        return "microbatch " + std::to_string(m) + " doesn't finish stage " +
               std::to_string(stage);
  return "";
}

std::string Checker::run() {
  if (std::string error = sizes(); !error.empty())
    return error;
  for (int64_t rank = 0; rank < shape.ranks; ++rank)
    for (const Call &call : schedule.calls[rank])
      if (!inRange(rank, call))
        return "chunk, microbatch or slot out of range: " + describe(rank, call);
  states.assign(shape.stages() * shape.microbatches, State::Untouched);
  added.assign(shape.stages(), -1);
  next.assign(shape.ranks, 0);
  for (const std::vector<int32_t> &counts : schedule.slots) {
    holders.emplace_back();
    for (int32_t count : counts)
      holders.back().emplace_back(count, -1);
  }
  for (bool progress = true; progress;) {
    progress = false;
    for (int64_t rank = 0; rank < shape.ranks; ++rank) {
      const std::vector<Call> &calls = schedule.calls[rank];
      for (; next[rank] < calls.size() && ready(rank, calls[next[rank]]); ++next[rank]) {
        if (std::string error = carryOut(rank, calls[next[rank]]); !error.empty())
          return error;
        progress = true;
      }
    }
  }
  return stuck();
}

std::string check(const Schedule &schedule) { return Checker(schedule).run(); }

} // namespace dtc::schedule
