// Seconds that no step of a shape can fall below, and bytes that no rank of a
// schedule can do with less of.
#include "Passes.h"

#include "dtc/Schedule/Descriptor.h"

#include <algorithm>

namespace dtc::simulate {

/// The simulator adds the same seconds in another order.
static constexpr double kRounding = 1e-9;

/// The shortest that a call can take. With overlapped part B beside the rest A, both run at
/// 1/slow-down until the first is over, the other alone from then on. Where that is worse than one
/// after the other, the simulator may happen to do the latter.
double callSeconds(const Work &work, const OverlapSlowdown &slowdown) {
  double main = work.compute + work.blocking, beside = work.overlapped;
  double both = std::min(main * slowdown.compute, beside * slowdown.communication);
  double rest = std::max(0.0, main - both / slowdown.compute) +
                std::max(0.0, beside - both / slowdown.communication);
  return std::min(main + beside, both + rest);
}

static schedule::StepTimes timesOf(const schedule::ScheduleShape &shape,
                                   const schedule::Placement &placement, const Costs &costs) {
  schedule::StepTimes times;
  bool split = schedule::describe(shape.kind).splitsBackward();
  for (const StageCost &stage : costs.stages) {
    times.forward.push_back(callSeconds(stage.forward, costs.slowdown));
    Work back = workOf(stage, split ? schedule::Pass::InputGrad : schedule::Pass::Backward);
    times.backward.push_back(callSeconds(back, costs.slowdown));
    times.weights.push_back(split ? callSeconds(stage.weightGrad, costs.slowdown) : 0);
  }
  // Where no stage has a backward pass, nothing comes back.
  bool goesBack = std::any_of(costs.stages.begin(), costs.stages.end(), [](const StageCost &stage) {
    return serialSeconds(workOf(stage, schedule::Pass::Backward)) > 0;
  });
  for (size_t i = 0; i < costs.boundaries.size(); ++i) {
    const Boundary &boundary = costs.boundaries[i];
    auto seconds = [&](double bytes) {
      bool local = placement.staysAfter(int64_t(i));
      return local ? 0 : boundary.latency + (bytes > 0 ? bytes / boundary.bandwidth : 0);
    };
    times.sendForward.push_back(seconds(boundary.forwardBytes));
    times.sendBackward.push_back(goesBack ? seconds(boundary.backwardBytes) : 0);
  }
  for (int64_t rank = 0; rank < shape.ranks; ++rank) {
    const StageCost &first = costs.stages[rank];
    times.prologue.push_back(serialSeconds(costs.ranks[rank].prologue));
    times.reduction.push_back((1 - first.reductionOverlap) * first.reductionSeconds);
    times.update.push_back(costs.jointUpdate ? 0 : serialSeconds(costs.ranks[rank].update));
  }
  return times;
}

double lowerBound(const schedule::ScheduleShape &shape, const Costs &costs) {
  if (!check(shape, costs).empty())
    return 0;
  schedule::Placement placement = schedule::placementOf(shape);
  double seconds = schedule::lowerBound(shape, placement, timesOf(shape, placement, costs));
  double jointUpdate = 0; // of all ranks together, where none begins before all are ready
  if (costs.jointUpdate)
    for (const RankCost &rank : costs.ranks)
      jointUpdate = std::max(jointUpdate, serialSeconds(rank.update));
  return (seconds + jointUpdate) * (1 - kRounding);
}

double placedBytes(const schedule::Schedule &schedule, const Costs &costs, int64_t rank,
                   double messages) {
  double slots = 0, most = 0;
  bool splits = false;
  for (const schedule::Call &call : schedule.calls[rank]) {
    most = std::max(most, temporariesOf(costs.stages[schedule.stage(rank, call.chunk)], call.pass));
    splits |= call.pass == schedule::Pass::WeightGrad;
  }
  for (int64_t chunk = 0; chunk < schedule.shape.chunks; ++chunk) {
    const int64_t index = schedule.stage(rank, chunk);
    const StageCost &stage = costs.stages[index];
    const int32_t count = schedule.slots[rank][chunk];
    slots += count * (stage.savedBytes + (splits ? stage.waitingBytes : 0));
    // What it hands over to the next chunk lies in the slots of both.
    if (index + 1 < schedule.shape.stages() && schedule.placement.staysAfter(index)) {
      const Boundary &next = costs.boundaries[index];
      slots += count * (next.forwardBytes + next.backwardBytes - next.slotBytes);
    }
  }
  const RankCost &own = costs.ranks[rank];
  return own.staticBytes + messages + std::max(slots + most, own.updateTransient);
}

double leastPeakBytes(const schedule::Schedule &schedule, const Costs &costs, int64_t rank) {
  if (isPlaced(schedule, costs))
    return placedBytes(schedule, costs, rank, 0) * (1 - kRounding);
  double held = 0, most = costs.ranks[rank].updateTransient;
  for (const schedule::Call &call : schedule.calls[rank]) {
    const StageCost &stage = costs.stages[schedule.stage(rank, call.chunk)];
    if (call.pass == schedule::Pass::Forward)
      held += stage.savedBytes;
    most = std::max(most, held + transientOf(stage, call.pass));
    if (call.pass == schedule::Pass::Backward)
      held -= stage.savedBytes;
    else if (call.pass == schedule::Pass::InputGrad)
      held += stage.keptBytes - stage.savedBytes;
    else if (call.pass == schedule::Pass::WeightGrad)
      held -= stage.keptBytes;
  }
  return (costs.ranks[rank].staticBytes + most) * (1 - kRounding);
}

} // namespace dtc::simulate
