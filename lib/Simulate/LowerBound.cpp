// Seconds that no step can fall below, from the order of calls that all
// schedules of a kind have in common, and bytes, from that of one schedule.
#include "Passes.h"

#include <algorithm>

namespace dtc::simulate {

using schedule::ScheduleKind;

/// The simulator adds the same seconds in another order.
static constexpr double kRounding = 1e-9;

/// The shortest that a call can take. With overlapped part B beside the rest A,
/// both run at 1/slow-down until the first is over, the other alone from then
/// on; where that is worse than one after the other, the simulator may happen
/// to do the latter.
double callSeconds(const Work &work, const Slowdown &slowdown) {
  double main = work.compute + work.blocking, beside = work.overlapped;
  double both = std::min(main * slowdown.compute, beside * slowdown.communication);
  double rest = std::max(0.0, main - both / slowdown.compute) +
                std::max(0.0, beside - both / slowdown.communication);
  return std::min(main + beside, both + rest);
}

namespace {

/// Times of stages and of what lies between them. Every rank's first call is the
/// first microbatch's forward pass of chunk 0, and its last one from which others
/// need something the last microbatch's backward pass of chunk 0.
class Bound {
public:
  Bound(const schedule::ScheduleShape &shape, const Costs &costs);
  double throughRanks() const;
  double throughOneMicrobatch() const;
  double throughFlush() const;
  /// Of all ranks together, where none begins before all are ready.
  double jointUpdate = 0;

private:
  void addStages();
  void addHeadsAndTails();

  const schedule::ScheduleShape &shape;
  const Costs &costs;
  bool split; ///< weight gradients are calls of their own
  double microbatches;
  /// By stage; `backward` is the input gradient where split, `weights` else 0.
  std::vector<double> forward, backward, weights;
  std::vector<double> sendForward, sendBackward; ///< by boundary
  /// By rank: before its first call; its calls up to the last backward pass;
  /// after that until all ranks that depend on it are done.
  std::vector<double> head, work, tail;
};

} // namespace

Bound::Bound(const schedule::ScheduleShape &shape, const Costs &costs)
    : shape(shape), costs(costs), split(shape.kind == ScheduleKind::ZeroBubble),
      microbatches(double(shape.microbatches)) {
  addStages();
  addHeadsAndTails();
}

void Bound::addStages() {
  for (const StageCost &stage : costs.stages) {
    forward.push_back(callSeconds(stage.forward, costs.slowdown));
    Work back = workOf(stage, split ? schedule::Pass::InputGrad : schedule::Pass::Backward);
    backward.push_back(callSeconds(back, costs.slowdown));
    weights.push_back(split ? callSeconds(stage.weightGrad, costs.slowdown) : 0);
  }
  for (const Boundary &boundary : costs.boundaries) {
    auto seconds = [&](double bytes) {
      bool local = shape.ranks == 1;
      return local ? 0 : boundary.latency + (bytes > 0 ? bytes / boundary.bandwidth : 0);
    };
    sendForward.push_back(seconds(boundary.forwardBytes));
    sendBackward.push_back(seconds(boundary.backwardBytes));
  }
}

void Bound::addHeadsAndTails() {
  head.resize(shape.ranks);
  work.resize(shape.ranks);
  tail.resize(shape.ranks);
  for (int64_t rank = 0; rank < shape.ranks; ++rank) {
    const RankCost &once = costs.ranks[rank];
    head[rank] = serialSeconds(once.prologue);
    if (rank > 0)
      head[rank] = std::max(head[rank],
                            head[rank - 1] + forward[rank - 1] + sendForward[rank - 1]);
    // Weight gradients that a split schedule leaves for after the last backward pass.
    double late = split ? double(std::min(rank + 1, shape.microbatches)) : 0;
    for (int64_t stage = rank; stage < shape.stages(); stage += shape.ranks)
      work[rank] += microbatches * (forward[stage] + backward[stage]) +
                    (microbatches - late) * weights[stage];
    const StageCost &first = costs.stages[rank];
    double update = serialSeconds(once.update);
    tail[rank] = late * weights[rank] + (1 - first.reductionOverlap) * first.reductionSeconds;
    if (costs.jointUpdate)
      jointUpdate = std::max(jointUpdate, update);
    else
      tail[rank] += update;
    if (rank > 0)
      tail[rank] = std::max(tail[rank],
                            sendBackward[rank - 1] + backward[rank - 1] + tail[rank - 1]);
  }
}

/// A rank makes its calls one after another.
double Bound::throughRanks() const {
  double bound = 0;
  for (int64_t rank = 0; rank < shape.ranks; ++rank)
    bound = std::max(bound, head[rank] + work[rank] + tail[rank]);
  return bound;
}

/// A microbatch passes all stages forward and backward.
double Bound::throughOneMicrobatch() const {
  double seconds = head[0] + tail[0];
  for (int64_t stage = 0; stage < shape.stages(); ++stage)
    seconds += forward[stage] + backward[stage];
  for (int64_t i = 0; i + 1 < shape.stages(); ++i)
    seconds += sendForward[i] + sendBackward[i];
  return seconds;
}

/// GPipe: no backward pass before all forward passes have reached the last stage.
double Bound::throughFlush() const {
  double filled = 0, drained = 0, onwards = 0, back = 0;
  for (int64_t stage = shape.ranks; stage-- > 0;) {
    filled = std::max(filled, head[stage] + microbatches * forward[stage] + onwards);
    drained = std::max(drained, back + microbatches * backward[stage] + tail[stage]);
    if (stage > 0) {
      onwards += sendForward[stage - 1] + forward[stage];
      back += sendBackward[stage - 1] + backward[stage];
    }
  }
  return filled + drained;
}

double lowerBound(const schedule::ScheduleShape &shape, const Costs &costs) {
  if (!check(shape, costs).empty())
    return 0;
  Bound bound(shape, costs);
  double seconds = std::max(bound.throughRanks(), bound.throughOneMicrobatch());
  if (shape.kind == ScheduleKind::GPipe)
    seconds = std::max(seconds, bound.throughFlush());
  return (seconds + bound.jointUpdate) * (1 - kRounding);
}

double leastPeakBytes(const schedule::Schedule &schedule, const Costs &costs, int64_t rank) {
  double held = 0, most = costs.ranks[rank].updateTransient;
  for (const schedule::Call &call : schedule.calls[rank]) {
    const StageCost &stage = costs.stages[schedule.stage(rank, call.chunk)];
    switch (call.pass) {
    case schedule::Pass::Forward:
      held += stage.savedBytes;
      most = std::max(most, held + stage.forwardTransient);
      break;
    case schedule::Pass::Backward:
      most = std::max(most, held + stage.backwardTransient);
      held -= stage.savedBytes;
      break;
    case schedule::Pass::InputGrad:
      most = std::max(most, held + stage.backwardTransient);
      held += stage.keptBytes - stage.savedBytes;
      break;
    case schedule::Pass::WeightGrad:
      most = std::max(most, held + stage.weightGradTransient);
      held -= stage.keptBytes;
      break;
    }
  }
  return (costs.ranks[rank].staticBytes + most) * (1 - kRounding);
}

} // namespace dtc::simulate
