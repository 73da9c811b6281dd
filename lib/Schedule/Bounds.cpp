#include "dtc/Schedule/Bounds.h"

#include "dtc/Schedule/Descriptor.h"

#include <algorithm>

namespace dtc::schedule {

/// Every rank's first call is the first microbatch's forward pass of chunk 0. The last one from
/// which others need something is a backward pass of chunk 0.
StepPaths::StepPaths(const ScheduleShape &shape, const Placement &placement, const StepTimes &times)
    : shape(shape), times(times), microbatches(double(shape.microbatches)), head(shape.ranks),
      work(shape.ranks), tail(shape.ranks) {
  const Descriptor &kind = describe(shape.kind);
  for (int64_t rank = 0; rank < shape.ranks; ++rank) {
    head[rank] = times.prologue[rank];
    if (rank > 0)
      head[rank] = std::max(head[rank],
                            head[rank - 1] + times.forward[rank - 1] + times.sendForward[rank - 1]);
    double lateSeconds = 0;
    for (int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
      int64_t stage = placement.stage(rank, chunk);
      double late = kind.splitsBackward() ? double(kind.lateWeightGrads(shape, rank, chunk)) : 0;
      work[rank] += microbatches * (times.forward[stage] + times.backward[stage]) +
                    (microbatches - late) * times.weights[stage];
      lateSeconds += late * times.weights[stage];
    }
    tail[rank] = lateSeconds + times.reduction[rank];
    tail[rank] += times.update[rank];
    if (rank > 0)
      tail[rank] = std::max(tail[rank], times.sendBackward[rank - 1] + times.backward[rank - 1] +
                                            tail[rank - 1]);
  }
}

double StepPaths::throughRanks() const {
  double bound = 0;
  for (int64_t rank = 0; rank < shape.ranks; ++rank)
    bound = std::max(bound, head[rank] + work[rank] + tail[rank]);
  return bound;
}

double StepPaths::roundTrip() const {
  double seconds = 0;
  for (int64_t stage = 0; stage < shape.stages(); ++stage)
    seconds += times.forward[stage] + times.backward[stage];
  for (int64_t i = 0; i + 1 < shape.stages(); ++i)
    seconds += times.sendForward[i] + times.sendBackward[i];
  return seconds;
}

double StepPaths::throughOneMicrobatch() const { return head[0] + roundTrip() + tail[0]; }

double StepPaths::throughKept() const {
  // Without a backward pass nothing is kept.
  const bool goesBack = std::any_of(times.backward.begin(), times.backward.end(),
                                    [](double seconds) { return seconds > 0; });
  if (shape.kept < 1 || !goesBack)
    return 0;
  const int64_t before = (shape.microbatches - 1) / shape.kept;
  return double(before) * (roundTrip() + times.weights[0]) + throughOneMicrobatch();
}

double StepPaths::throughFlush() const {
  double filled = 0, drained = 0, onwards = 0, back = 0;
  for (int64_t stage = shape.ranks; stage-- > 0;) {
    filled = std::max(filled, head[stage] + microbatches * times.forward[stage] + onwards);
    drained = std::max(drained, back + microbatches * times.backward[stage] + tail[stage]);
    if (stage > 0) {
      onwards += times.sendForward[stage - 1] + times.forward[stage];
      back += times.sendBackward[stage - 1] + times.backward[stage];
    }
  }
  return filled + drained;
}

double lowerBound(const ScheduleShape &shape, const Placement &placement, const StepTimes &times) {
  StepPaths paths(shape, placement, times);
  double seconds = std::max(paths.throughRanks(), paths.throughOneMicrobatch());
  const Descriptor &kind = describe(shape.kind);
  return kind.lowerBound ? std::max(seconds, kind.lowerBound(paths)) : seconds;
}

} // namespace dtc::schedule
