#include "dtc/Schedule/Schedule.h"

#include "dtc/Schedule/Descriptor.h"
#include "dtc/Schedule/ForwardPasses.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace dtc::schedule {

/// More calls than any real step has; keeps ids in 32 bits and memory in bounds.
static constexpr int64_t kMaxCalls = int64_t(1) << 22;

std::string impossibleSize(const ScheduleShape &shape) {
  auto number = [](int64_t value) { return std::to_string(value); };
  if (shape.ranks < 1)
    return "a pipeline needs at least one rank, got " + number(shape.ranks);
  if (shape.chunks < 1)
    return "a rank needs at least one chunk, got " + number(shape.chunks);
  if (shape.microbatches < 1)
    return "a schedule needs at least one microbatch, got " + number(shape.microbatches);
  if (shape.ranks > kMaxCalls || shape.chunks > kMaxCalls / shape.ranks ||
      shape.microbatches > kMaxCalls / (3 * shape.stages()))
    return "a schedule of " + number(shape.microbatches) + " microbatches on " +
           number(shape.ranks) + " x " + number(shape.chunks) + " stages is too long";
  return "";
}

std::string unsupported(const ScheduleShape &shape) {
  if (std::string reason = impossibleSize(shape); !reason.empty())
    return reason;
  const Descriptor &kind = describe(shape.kind);
  if (shape.chunks < kind.fewestChunks)
    return std::string("schedule=") + kind.name + " has at least " +
           std::to_string(kind.fewestChunks) + " chunks a rank, got " +
           std::to_string(shape.chunks);
  if (shape.chunks > kind.mostChunks)
    return std::string("schedule=") + kind.name + " has " +
           (kind.mostChunks == 1 ? "one chunk"
                                 : "at most " + std::to_string(kind.mostChunks) + " chunks") +
           " a rank, got " + std::to_string(shape.chunks);
  if (shape.kept < 0)
    return "a rank keeps at least one microbatch, got kept=" + std::to_string(shape.kept);
  if (shape.kept > 0 && !kind.limitsKept())
    return std::string("schedule=") + kind.name +
           " takes no limit of kept microbatches, got kept=" + std::to_string(shape.kept);
  return kind.unsupported ? kind.unsupported(shape) : "";
}

Placement placementOf(const ScheduleShape &shape) {
  const Descriptor &kind = describe(shape.kind);
  return kind.placement ? kind.placement(shape) : Placement::inTurn(shape.ranks, shape.chunks);
}

/// The first chunk of those whose stages follow each other up to this chunk's.
static int64_t firstOfRun(const Placement &placement, int64_t rank, int64_t chunk) {
  while (chunk > 0 && placement.stage(rank, chunk - 1) + 1 == placement.stage(rank, chunk))
    --chunk;
  return chunk;
}

/// The first forward call takes the lowest slot that is free, the end of the last pass returns it.
/// Chunks whose stages follow each other hand over in their slots, so that a microbatch has the
/// same slot in them. Returns how many slots each chunk needs.
static std::vector<int32_t> assignSlots(const ScheduleShape &shape, const Placement &placement,
                                        int64_t rank, bool trains, CallList &calls) {
  using FreeSlots = std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>>;
  struct SlotInUse {
    int32_t slot = -1;
    int64_t open = 0; ///< chunks whose last pass isn't over
  };
  std::vector<FreeSlots> free(shape.chunks);
  std::vector<int32_t> made(shape.chunks, 0), slots(shape.chunks, 0);
  std::vector<int64_t> first(shape.chunks), length(shape.chunks, 0);
  for (int64_t chunk = 0; chunk < shape.chunks; ++chunk)
    ++length[first[chunk] = firstOfRun(placement, rank, chunk)];
  std::vector<SlotInUse> held(shape.chunks * shape.microbatches);
  for (Call &call : calls) {
    const int64_t run = first[call.chunk];
    SlotInUse &own = held[run * shape.microbatches + call.microbatch];
    FreeSlots &pool = free[run];
    if (call.pass == Pass::Forward && own.slot < 0) {
      if (pool.empty())
        pool.push(made[run]++);
      own = {pool.top(), length[run]};
      pool.pop();
    }
    call.slot = own.slot;
    slots[call.chunk] = std::max(slots[call.chunk], own.slot + 1);
    bool isLast = !trains || call.pass == Pass::Backward || call.pass == Pass::WeightGrad;
    if (isLast && --own.open == 0)
      pool.push(own.slot);
  }
  return slots;
}

std::optional<Schedule> makeSchedule(const ScheduleShape &shape) {
  if (!unsupported(shape).empty())
    return std::nullopt;
  Schedule schedule{shape, placementOf(shape), {}, {}};
  for (int64_t rank = 0; rank < shape.ranks; ++rank) {
    schedule.calls.push_back(describe(shape.kind).calls(shape, rank));
    schedule.slots.push_back(
        assignSlots(shape, schedule.placement, rank, /*trains=*/true, schedule.calls.back()));
  }
  return schedule;
}

bool trains(const Schedule &schedule) {
  return std::any_of(schedule.calls.begin(), schedule.calls.end(), [](const CallList &calls) {
    return std::any_of(calls.begin(), calls.end(),
                       [](const Call &call) { return call.pass != Pass::Forward; });
  });
}

Schedule forwardPasses(Schedule schedule) {
  for (int64_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    CallList &calls = schedule.calls[rank];
    std::erase_if(calls, [](const Call &call) { return call.pass != Pass::Forward; });
    schedule.slots[rank] =
        assignSlots(schedule.shape, schedule.placement, rank, /*trains=*/false, calls);
  }
  return schedule;
}

std::optional<Schedule> makeSchedule(const ScheduleShape &shape, bool trains) {
  std::optional<Schedule> made = makeSchedule(shape);
  return made && !trains ? forwardPasses(std::move(*made)) : std::move(made);
}

} // namespace dtc::schedule
