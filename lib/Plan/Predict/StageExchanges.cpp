// What a stage's parameters and gradients are gathered and summed up with.
#include "PlacedPrograms.h"

#include "dtc/Plan/Predict/StageCosts.h"
#include "dtc/Schedule/GradientBuckets.h"

#include <algorithm>

namespace dtc::plan {

using sharding::AxisList;
using sharding::StepKind;

/// Gradients that are summed once a step, and parameters gathered after it.
static double buckets(double bytes, int64_t ranks) {
  return double(schedule::countBuckets(bytes, ranks));
}

/// Into how many parts what a stage stores at a level is gathered: its blocks that have it.
double StageCosts::pieces(WeightClass::Level level, const StageRun &run) const {
  int all = blocksBefore[run.end] - blocksBefore[run.begin];
  if (level == WeightClass::Level::Only)
    return std::max(1, all);
  int higher = higherBefore[run.end] - higherBefore[run.begin];
  return std::max(1, level == WeightClass::Level::Higher ? higher : all - higher);
}

/// Blocks of which anything is split over such axes.
double StageCosts::piecesWith(AxisList WeightClass::*axes, const StageRun &run) const {
  auto level = WeightClass::Level::Only;
  for (const WeightClass &weights : classes) {
    if ((weights.*axes).empty())
      continue;
    if (level != WeightClass::Level::Only && level != weights.level)
      return pieces(WeightClass::Level::Only, run);
    level = weights.level;
  }
  return pieces(level, run);
}

StageCosts::Exchange StageCosts::exchange(StepKind kind, const AxisList &axes, double bytes,
                                          double pieces) const {
  auto at = std::find_if(groups.begin(), groups.end(), [&](const Communicator &known) {
    return known.kind == kind && known.axes == axes;
  });
  if (at == groups.end())
    at = groups.insert(at, {kind, axes, &times->of(kind, model.groupShape(axes, mesh))});
  if (bytes <= 0 || at->times->shape.ranks <= 1)
    return {kind, nullptr, 0, 0, 0};
  return {kind, &at->axes, bytes, pieces * at->times->seconds(bytes / pieces), pieces};
}

/// As dtc's own programs do: by one call for each block of which a pass reads anything, as what
/// comes before all blocks and after them is, too (Partition/GatherAhead.cpp, Bucket.cpp).
StageCosts::Exchange StageCosts::byBlock(StepKind kind, const WeightClass &weights,
                                         const StageRun &run, bool backward) const {
  if (&weights != &firstOfCalls(classes, weights))
    return {};
  bool gathers = kind == StepKind::AllGather;
  int64_t bytes = 0;
  for (const WeightClass &each : classes)
    if (each.calls == weights.calls)
      bytes += gathers ? each.read(run, backward) : each.gradients(run);
  const WeightClass::Calls &calls = *weights.calls;
  const StageTable &table = !gathers ? calls.scatters : backward ? calls.backward : calls.forward;
  return exchange(kind, gathers ? weights.storage : weights.gradient, double(bytes),
                  std::max(1.0, double(table(run.begin, run.end))));
}

/// In how many calls a pass gathers.
double StageCosts::gathersOf(const StageRun &run, bool backward) const {
  if (!hasPlaces(model.getCluster().software))
    return piecesWith(&WeightClass::storage, run);
  double calls = 0;
  for (const WeightClass &weights : classes)
    calls += gather(weights, run, backward).calls;
  return std::max(1.0, calls);
}

double StageCosts::scattersOf(const StageRun &run) const {
  if (!hasPlaces(model.getCluster().software))
    return piecesWith(&WeightClass::gradient, run);
  double calls = 0;
  for (const WeightClass &weights : classes)
    calls += scatter(weights, run).calls;
  return std::max(1.0, calls);
}

StageCosts::Exchange StageCosts::gather(const WeightClass &weights, const StageRun &run,
                                        bool backward) const {
  if (weights.ranks.storage <= 1)
    return {};
  if (hasPlaces(model.getCluster().software))
    return byBlock(StepKind::AllGather, weights, run, backward);
  return exchange(StepKind::AllGather, weights.storage, double(weights.parameters(run)),
                  pieces(weights.level, run));
}

StageCosts::Exchange StageCosts::scatter(const WeightClass &weights, const StageRun &run) const {
  if (weights.ranks.gradient <= 1)
    return {};
  if (hasPlaces(model.getCluster().software))
    return byBlock(StepKind::ReduceScatter, weights, run, /*backward=*/true);
  return exchange(StepKind::ReduceScatter, weights.gradient, double(weights.gradients(run)),
                  pieces(weights.level, run));
}

AxisList without(const AxisList &axes, const AxisList &taken) {
  AxisList rest;
  for (sharding::AxisId axis : axes)
    if (std::find(taken.begin(), taken.end(), axis) == taken.end())
      rest.push_back(axis);
  return rest;
}

bool StageCosts::ownersBroadcast(const WeightClass &weights) const {
  return model.getCluster().software.ownersBroadcast && !weights.state.empty() &&
         weights.storage.empty();
}

/// Whether sums of gradients are copied, in the parameters' type, to be reduced. What is
/// scattered each microbatch isn't.
bool StageCosts::reducesHalfSums(const WeightClass &weights, const StageRun &run) const {
  return model.getCluster().software.reducesHalfSums && weights.trained &&
         weights.gradient.empty() && weights.gradients(run) > weights.parameters(run);
}

/// Of sums of gradients, what can't begin before the backward pass has ended. It is those of the
/// last block, or of the last bucket where that is larger.
double StageCosts::lastShare(const WeightClass &weights, const StageRun &run) const {
  if (reducesHalfSums(weights, run))
    return 1;
  double bucket = double(model.getCluster().software.bucketElements) /
                  std::max(1.0, double(weights.elements(run)));
  return std::clamp(bucket, 1 / pieces(WeightClass::Level::Only, run), 1.0);
}

/// Sums of gradients once a step: to where the state is stored, the rest among
/// the ranks that hold the same part.
StageCosts::Few<StageCosts::Once> StageCosts::sumsOf(const WeightClass &weights,
                                                     const StageRun &run) const {
  using Calls = Once::Calls;
  bool half = reducesHalfSums(weights, run);
  auto bytes = double(half ? weights.parameters(run) : weights.gradients(run));
  int64_t count = weights.count(run);
  Few<Once> result;
  if (!weights.trained || weights.pending.empty() || bytes <= 0)
    return result;
  bool scattered = !weights.gradient.empty();
  if (!scattered && ownersBroadcast(weights)) {
    result.add({StepKind::AllReduce, &weights.pending, Calls::Buckets, bytes, count});
    return result;
  }
  const AxisList &target = scattered ? weights.gradient : weights.state;
  if (half && !target.empty())
    result.add({StepKind::AllReduce, &target, Calls::One, bytes, count});
  else if (!scattered && !target.empty())
    result.add({StepKind::ReduceScatter, &target, Calls::Buckets, bytes, count});
  bytes /= half ? 1 : double(scattered ? weights.ranks.gradient : weights.ranks.state);
  bool inUpdate = !scattered && !target.empty();
  if (!weights.rest.empty())
    result.add({StepKind::AllReduce, &weights.rest, inUpdate ? Calls::Buckets : Calls::GradientSums,
                bytes, count});
  return result;
}

/// Parameters whose update is split are gathered for all ranks after it, unless
/// each pass gathers them.
StageCosts::Few<StageCosts::Once> StageCosts::gathersOnce(const WeightClass &weights,
                                                          const StageRun &run) const {
  Few<Once> result;
  // A part that goes round from its owner takes the hops and the traffic of gathering it.
  if (weights.trained && weights.storage.empty() && !weights.state.empty())
    result.add({StepKind::AllGather, &weights.state,
                ownersBroadcast(weights) ? Once::Calls::Owners : Once::Calls::Buckets,
                double(weights.parameters(run)), weights.count(run)});
  return result;
}

/// Programs of dtc's own have common calls for all classes that do the same. These are those of
/// the first one.
StageCosts::Exchange StageCosts::inCalls(Once once, const WeightClass &weights, const StageRun &run,
                                         Few<Once> (StageCosts::*of)(const WeightClass &,
                                                                     const StageRun &)
                                             const) const {
  if (hasPlaces(model.getCluster().software))
    for (const WeightClass &other : classes)
      for (const Once &each : (this->*of)(other, run))
        if (&other != &weights && each.isLike(once)) {
          if (&other < &weights)
            return {};
          once.bytes += each.bytes;
          once.count += each.count;
        }
  int64_t ranks = mesh.size(*once.axes);
  double calls = once.calls == Once::Calls::One      ? 1
                 : once.calls == Once::Calls::Owners ? double(ranks)
                                                     : buckets(once.bytes, ranks);
  // A processor runs dtc's programs alone; on GPUs any may be meant.
  if (once.calls == Once::Calls::GradientSums && model.getCluster().sharedMemory)
    calls = double(schedule::countGradientSums(once.count, once.bytes, ranks));
  return exchange(once.kind, *once.axes, once.bytes, calls);
}

StageCosts::Reductions StageCosts::reductions(const WeightClass &weights,
                                              const StageRun &run) const {
  Reductions result;
  for (const Once &sum : sumsOf(weights, run))
    result.add(inCalls(sum, weights, run, &StageCosts::sumsOf));
  return result;
}

StageCosts::Exchange StageCosts::regather(const WeightClass &weights, const StageRun &run) const {
  Exchange result;
  for (const Once &gather : gathersOnce(weights, run))
    result = inCalls(gather, weights, run, &StageCosts::gathersOnce);
  return result;
}

} // namespace dtc::plan
