#include "Estimate.h"

#include "CutPositions.h"
#include "ShardingSolver.h"
#include "StageCuts.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc::plan {

using sharding::AxisList;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

AxisList storageAxes(const Degrees &degrees, const sharding::Mesh &mesh) {
  AxisList axes = mesh.ofDegree("dp");
  while (degrees.zeroGroup > 0 && !axes.empty() && mesh.size(axes) > degrees.zeroGroup)
    axes.erase(axes.begin());
  AxisList context = mesh.ofDegree("cp");
  axes.insert(axes.end(), context.begin(), context.end());
  return axes;
}

/// The same parameters with data-parallel ranks around: axes shift, gradients
/// pend over dp, ZeRO stores.
static Weights surrounded(Weights weights, const Degrees &degrees, const sharding::Mesh &mesh) {
  AxisList data = mesh.ofDegree("dp"), storage = storageAxes(degrees, mesh);
  auto shift = static_cast<int>(data.size());
  for (WeightClass &each : weights.classes) {
    for (sharding::AxisId &axis : each.pending)
      axis += shift;
    if (!each.trained)
      continue;
    each.pending.insert(each.pending.begin(), data.begin(), data.end());
    if (degrees.zero >= 1)
      each.state = storage;
    if (degrees.zero >= 2)
      each.gradient = storage;
    if (degrees.zero >= 3)
      each.storage = storage;
  }
  return weights;
}

/// Groups that sum up single numbers, as scalarSums finds them in the whole plan.
static std::vector<AxisList> surroundedSums(const ShardCosts &shard, const sharding::Mesh &mesh) {
  AxisList data = mesh.ofDegree("dp");
  const Problem &problem = shard.getProblem();
  std::vector<AxisList> result;
  if (!data.empty() && std::any_of(problem.values.begin(), problem.values.end(),
                                   [](const Value &v) { return v.kind == ValueKind::Target; }))
    result.push_back(data);
  for (AxisList axes : shard.getScalarSums()) {
    for (sharding::AxisId &axis : axes)
      axis += static_cast<int>(data.size());
    result.push_back(std::move(axes));
  }
  return result;
}

static pipeline::ScheduleShape shapeOf(const Degrees &degrees) {
  return {degrees.pp == 1 ? ScheduleKind::OneFOneB : degrees.schedule, degrees.pp,
          degrees.chunks, degrees.numMicrobatches};
}

static double alone(const simulate::Work &work) {
  return std::max(work.compute, work.overlapped) + work.blocking;
}

const std::vector<OpId> &Estimator::cutsFor(const Degrees &degrees) {
  int64_t stages = degrees.pp * degrees.chunks;
  auto [it, isNew] = cutSets.try_emplace(stages);
  if (isNew)
    it->second = cutPositions(problem, facts, library.getBlocks(), stages);
  return it->second;
}

/// A microbatch comes to rank k through the stages before it and goes back
/// through them: with stages of t_0, t_1, ... seconds, and `share` of each on that
/// way, a step takes at least share * (t_0 + ... + t_{k-1}) + m * t_k. The sum of
/// all t being given, the least such step makes these equal for all k.
static double pipelineFloor(double work, double share, double microbatches, double ranks) {
  if (ranks <= 1)
    return microbatches * work;
  return share * work / (1 - std::pow(1 - share / microbatches, ranks));
}

double Estimator::lowerBound(const Degrees &degrees, const ShardVariant &variant,
                             std::string &error) {
  const ShardCosts *shard = library.get(degrees, variant, error);
  if (!shard)
    return kInfinity;
  const Profile &profile = shard->profile(degrees.recompute, cutsFor(degrees));
  PassSeconds all = profile.seconds(0, profile.units());
  double work = all.forward + all.backward(), share = 1;
  if (degrees.schedule == ScheduleKind::Interleaved)
    share = 1 / double(degrees.chunks);
  else if (degrees.schedule == ScheduleKind::ZeroBubble && work > 0)
    share = (work - all.weightGrad) / work;
  return pipelineFloor(work, share, double(degrees.numMicrobatches), double(degrees.pp));
}

/// Prices of stages, each computed once.
struct Estimator::StagePrices {
  struct Entry {
    double seconds = -1, saved = 0, transient = 0, resident = 0;
  };
  StagePrices(const StageCosts &costs, const Degrees &degrees, int units)
      : costs(costs), degrees(degrees), units(units),
        entries(static_cast<size_t>(units + 1) * (units + 1)) {}

  const Entry &operator()(int a, int b) {
    Entry &entry = entries[static_cast<size_t>(a) * (units + 1) + b];
    if (entry.seconds >= 0)
      return entry;
    simulate::StageCost stage = costs.stage(a, b);
    simulate::RankCost rank = costs.rank({{a, b}}, 0);
    double each = alone(stage.forward) + alone(stage.recompute + stage.inputGrad) +
                  alone(stage.weightGrad);
    entry.seconds = double(degrees.numMicrobatches) * each +
                    stage.reductionSeconds * (1 - stage.reductionOverlap) +
                    rank.update.compute + rank.update.blocking;
    entry.saved = stage.savedBytes;
    entry.transient = std::max({stage.forwardTransient, stage.backwardTransient,
                                stage.weightGradTransient});
    entry.resident = rank.staticBytes;
    return entry;
  }

  const StageCosts &costs;
  const Degrees &degrees;
  int units;
  std::vector<Entry> entries;
};

/// Communication buffers of a group for each degree.
static int64_t communicators(const Degrees &degrees) {
  return (degrees.dp > 1) + (degrees.tp > 1) + (degrees.cp > 1) + (degrees.pp > 1);
}

Estimator::Outcome Estimator::estimate(const Degrees &degrees, const ShardVariant &variant,
                                       double limit, bool anyMemory, Estimate &result,
                                       std::string &error) {
  const ShardCosts *shard = library.get(degrees, variant, error);
  auto schedule = pipeline::makeSchedule(shapeOf(degrees));
  if (!shard || !schedule)
    return Outcome::Impossible;
  if (lowerBound(degrees, variant, error) > limit)
    return Outcome::TooSlow;
  const std::vector<OpId> &positions = cutsFor(degrees);
  const Profile &profile = shard->profile(degrees.recompute, positions);
  const CostModel &model = library.getModel();
  sharding::Mesh mesh = makeMesh(shard->getProblem(), shard->getFacts(), degrees);
  StageCosts costs(shard->getProblem(), model, degrees, mesh, profile,
                   surrounded(shard->weights(positions), degrees, mesh), library.getBlocks(),
                   surroundedSums(*shard, mesh));
  StagePrices prices(costs, degrees, profile.units());
  double capacity = model.memoryPerRank() - model.reservedBytes(communicators(degrees)) -
                    double(degrees.numMicrobatches * shard->dataBytes());
  // All ranks together must at least hold what is kept.
  if (!anyMemory && costs.rank({{0, profile.units()}}, 0).staticBytes / double(degrees.pp) > capacity)
    return Outcome::TooLarge;
  auto cut = [&](double budget) {
    return cutStages(profile.units(), static_cast<int>(degrees.pp * degrees.chunks),
                     [&](int a, int b, int stage) {
                       const StagePrices::Entry &entry = prices(a, b);
                       int32_t slots = schedule->slots[stage % degrees.pp][stage / degrees.pp];
                       double memory = entry.resident + slots * entry.saved + entry.transient;
                       return memory <= budget ? entry.seconds : kInfinity;
                     });
  };
  auto simulated = [&](const std::vector<int> &cuts) {
    simulate::Costs all = costs.costs(cuts);
    if (simulate::lowerBound(schedule->shape, all) > limit)
      return Outcome::TooSlow;
    simulate::Timeline timeline = simulate::simulate(*schedule, all);
    result = {degrees, variant, {}, timeline.stepSeconds, 0, capacity};
    for (const simulate::RankTimeline &rank : timeline.ranks)
      result.memory = std::max(result.memory, rank.peakBytes);
    for (int unit : cuts)
      result.cuts.push_back(unit < profile.units() ? profile.firstOp(unit)
                                                   : facts.lastForward + 1);
    return result.fits() || anyMemory ? Outcome::Found : Outcome::TooLarge;
  };
  // Chunks of a rank share its memory: cut for speed first, then so that each
  // keeps to its part.
  std::vector<double> budgets = {capacity};
  if (degrees.chunks > 1)
    budgets = {kInfinity, capacity / double(degrees.chunks)};
  if (anyMemory)
    budgets.push_back(kInfinity);
  Outcome outcome = Outcome::TooLarge;
  for (double budget : budgets)
    if (auto cuts = cut(budget))
      if (outcome = simulated(*cuts); outcome != Outcome::TooLarge)
        return outcome;
  return outcome;
}

} // namespace dtc::plan
