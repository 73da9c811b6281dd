#include "dtc/Schedule/Schedule.h"

#include "dtc/Schedule/Descriptor.h"

#include <functional>
#include <queue>

namespace dtc::schedule {

/// More calls than any real step has; keeps ids in 32 bits and memory in bounds.
static constexpr int64_t kMaxCalls = int64_t(1) << 26;

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
  if (shape.chunks > kind.mostChunks)
    return std::string("schedule=") + kind.name + " has " +
           (kind.mostChunks == 1 ? "one chunk"
                                 : "at most " + std::to_string(kind.mostChunks) + " chunks") +
           " a rank, got " + std::to_string(shape.chunks);
  return kind.unsupported ? kind.unsupported(shape) : "";
}

Placement placementOf(const ScheduleShape &shape) {
  const Descriptor &kind = describe(shape.kind);
  return kind.placement ? kind.placement(shape) : Placement::inTurn(shape.ranks, shape.chunks);
}

/// A forward call takes the lowest slot that is free, the end of the backward
/// pass returns it. Returns how many slots each chunk needs.
static std::vector<int32_t> assignSlots(const ScheduleShape &shape, CallList &calls) {
  using FreeSlots = std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>>;
  std::vector<FreeSlots> free(shape.chunks);
  std::vector<int32_t> slots(shape.chunks, 0);
  std::vector<int32_t> held(shape.chunks * shape.microbatches, 0);
  for (Call &call : calls) {
    int32_t &slot = held[call.chunk * shape.microbatches + call.microbatch];
    FreeSlots &pool = free[call.chunk];
    if (call.pass == Pass::Forward) {
      if (pool.empty())
        pool.push(slots[call.chunk]++);
      slot = pool.top();
      pool.pop();
    } else if (call.pass != Pass::InputGrad) {
      pool.push(slot);
    }
    call.slot = slot;
  }
  return slots;
}

std::optional<Schedule> makeSchedule(const ScheduleShape &shape) {
  if (!unsupported(shape).empty())
    return std::nullopt;
  Schedule schedule{shape, placementOf(shape), {}, {}};
  for (int64_t rank = 0; rank < shape.ranks; ++rank) {
    schedule.calls.push_back(describe(shape.kind).calls(shape, rank));
    schedule.slots.push_back(assignSlots(shape, schedule.calls.back()));
  }
  return schedule;
}

} // namespace dtc::schedule
