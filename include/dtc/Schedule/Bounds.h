// Seconds that no step of a schedule can fall below, from the order of calls that
// all schedules of a kind have in common.
//
// A step contains paths, chains of calls of which each waits for the one before.
// With two ranks, three microbatches and F = 1, B = 2 everywhere:
//
//   through rank 0     F0 F1 F2 B0 B1 B2                        9
//   through rank 1     (F0 on rank 0) F0 B0 F1 B1 F2 B2 (B2)    1 + 9 + 2 = 12
//   one microbatch     F0 F0 B0 B0                              6
//
// so that a step takes at least 12, which is what 1F1B takes.
#pragma once

#include "dtc/Schedule/Placement.h"

namespace dtc::schedule {

struct ScheduleShape;

/// Seconds that the parts of a step take at least.
struct StepTimes {
  /// By stage. `backward` is what the stage before waits for; `weights` are gradients
  /// of weights where these are a call of their own, else 0.
  std::vector<double> forward, backward, weights;
  /// By stage but the last, to the next and back; 0 on one rank.
  std::vector<double> sendForward, sendBackward;
  /// By rank, once a step: before its first call; the sum of gradients of its chunk 0
  /// after that chunk's last call; then the update.
  std::vector<double> prologue, reduction, update;
};

/// Paths through a step of a shape.
class StepPaths {
public:
  /// `shape` and `times` must outlive this.
  StepPaths(const ScheduleShape &shape, const Placement &placement, const StepTimes &times);

  /// A rank makes its calls one after another, once a microbatch has come to it and
  /// until one has gone back from it.
  double throughRanks() const;
  /// A microbatch passes all stages forward and backward.
  double throughOneMicrobatch() const;
  /// Where no backward pass begins before all forward passes have reached the last stage
  /// of ranks with one chunk.
  double throughFlush() const;
  /// Where a rank with one chunk keeps so many microbatches at most (ScheduleShape::kept). So many
  /// after another one, the first rank begins a microbatch when that one is over.
  double throughKept() const;

private:
  /// From the start of a microbatch's first call until its gradients are back on the first rank.
  double roundTrip() const;

  const ScheduleShape &shape;
  const StepTimes &times;
  double microbatches;
  /// By rank: before its first call; its calls up to the last backward pass;
  /// after that until all ranks that depend on it are done.
  std::vector<double> head, work, tail;
};

/// No step of the shape takes less. The shape is supported.
double lowerBound(const ScheduleShape &shape, const Placement &placement, const StepTimes &times);

} // namespace dtc::schedule
