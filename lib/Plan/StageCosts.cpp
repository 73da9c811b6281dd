#include "StageCosts.h"

#include "PipelineLinks.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan {

using sharding::AxisList;
using sharding::StepKind;

/// Optimizer state kept in host memory: bytes/s of one device over PCIe 4.0 x16
/// as measured, and of one device's share of a server's memory for the update.
static constexpr double kHostLinkBandwidth = 25e9, kHostMemoryBandwidth = 20e9;

/// The host's time to make a microbatch ready: to load it, broadcast it among tensor-parallel
/// ranks and make its mask, or to receive it. Fitted (docs/CostModel.md).
static constexpr double kBatchSeconds = 2e-3;

//===-- parameters --------------------------------------------------------===//

static bool sameKey(const WeightClass &a, const WeightClass &b) {
  return a.storage == b.storage && a.gradient == b.gradient && a.state == b.state &&
         a.pending == b.pending && a.split == b.split && a.trained == b.trained;
}

static const ParameterStorage *storageOf(const Plan &plan, const std::string &name) {
  for (const ParameterStorage &storage : plan.storage)
    if (storage.parameter == name)
      return &storage;
  return nullptr;
}

Weights findWeights(const Problem &problem, const ProblemFacts &facts,
                    const Plan &plan, const Execution &execution, const Profile &profile,
                    const Software &software) {
  std::vector<AxisList> pending(problem.arguments);
  for (const PendingGradient &gradient : execution.pendingGradients)
    pending[gradient.parameter] = gradient.axes;
  // Plans list their storage in the order of the arguments, as a rule.
  size_t next = 0;
  Weights result;
  std::vector<WeightClass> &classes = result.classes;
  for (ValueId value = 0; value < problem.arguments; ++value) {
    const Value &argument = problem.values[value];
    if (argument.kind != ValueKind::Parameter)
      continue;
    WeightClass key;
    if (argument.trainable) {
      bool inOrder = next < plan.storage.size() && plan.storage[next].parameter == argument.name;
      const ParameterStorage *storage =
          inOrder ? &plan.storage[next] : storageOf(plan, argument.name);
      next += inOrder;
      if (storage) {
        key.storage = storage->storageAxes;
        key.gradient = storage->gradientAxes;
        key.state = storage->stateAxes;
      }
      key.trained = facts.gradientResult[value] >= 0;
      key.pending = pending[value];
      for (sharding::AxisId axis : plan.mesh.ofDegree("ep"))
        if (plan.arguments.at(value).splits(axis))
          key.split.push_back(axis);
    }
    auto it = std::find_if(classes.begin(), classes.end(),
                           [&](const WeightClass &known) { return sameKey(known, key); });
    if (it == classes.end()) {
      StageTable none(profile.units());
      key.tables = std::make_shared<WeightClass::Tables>(
          WeightClass::Tables{none, none, none, none, none, none, none});
      classes.push_back(std::move(key));
      it = classes.end() - 1;
    }
    ParameterBytes bytes =
        parameterBytes(problem, value, plan.arguments.at(value), plan.mesh, software);
    for (std::vector<int> readers : profile.readers(value)) {
      if (readers.empty()) // what nothing reads stays with the first stage
        readers = {0};
      it->tables->parameters.addToStagesWith(readers, bytes.parameter);
      it->tables->gradients.addToStagesWith(readers, bytes.gradient);
      it->tables->states.addToStagesWith(readers, bytes.states);
      it->tables->kept.addToStagesWith(readers, bytes.kept);
      it->tables->update.addToStagesWith(readers, bytes.update);
      it->tables->elements.addToStagesWith(readers, bytes.parameter / byteSize(argument.type));
      it->tables->count.addToStagesWith(readers, 1);
      if (key.trained && readers.size() > 1)
        result.shared.emplace_back(std::move(readers), bytes.gradient);
    }
  }
  for (WeightClass &weights : classes)
    for (StageTable *table : {&weights.tables->parameters, &weights.tables->gradients,
                              &weights.tables->states, &weights.tables->kept,
                              &weights.tables->update, &weights.tables->elements,
                              &weights.tables->count})
      table->finish();
  return result;
}

StageCosts::StageCosts(const Problem &problem, const CostModel &model, const Degrees &degrees,
                       const sharding::Mesh &mesh, const Profile &profile,
                       Weights weights, const std::vector<Block> &blocks,
                       std::vector<AxisList> scalarSums)
    : model(model), degrees(degrees), mesh(mesh), profile(profile),
      pipelineStride(stridesOf(degrees)[static_cast<size_t>(Axis::PP)]),
      classes(std::move(weights.classes)), shared(std::move(weights.shared)),
      scalarSums(std::move(scalarSums)), blocksBefore(profile.units() + 1, 0) {
  hasAccumulators = std::any_of(
      problem.values.begin(), problem.values.begin() + problem.arguments,
      [](const Value &value) { return value.kind == ValueKind::Accumulator; });
  for (const Block &block : blocks)
    ++blocksBefore[profile.unitOf(block.first) + 1];
  for (int unit = 0; unit < profile.units(); ++unit)
    blocksBefore[unit + 1] += blocksBefore[unit];
}

bool StageCosts::overlaps() const {
  return !model.getCluster().sharedMemory && model.getCluster().software.overlapCommunication;
}

//===-- stages ------------------------------------------------------------===//

static void addBeside(simulate::Work &work, double seconds, double pieces, bool overlaps) {
  double exposed = overlaps ? seconds / pieces : seconds;
  work.blocking += exposed;
  work.overlapped += seconds - exposed;
}

/// Adding a microbatch's gradients to what earlier ones left, where the problem
/// has no ops for it.
double StageCosts::accumulation(const WeightClass &weights, int a, int b) const {
  if (degrees.numMicrobatches == 1 || hasAccumulators || !weights.trained)
    return 0;
  return model.streamSeconds(double(weights.gradients(a, b)));
}

int64_t StageCosts::savedBytes(int a, int b, int kept) const {
  return profile.savedBytes(kept, b) + (kept > a ? recomputed->savedBytes(a, kept) : 0);
}

/// The units that keep everything run their forward pass last and their backward
/// pass first, while the others keep the little that they do.
int64_t StageCosts::peakBytes(int a, int b, int kept) const {
  int64_t behind = profile.peakBytes(kept, b);
  return kept > a ? std::max(recomputed->peakBytes(a, kept),
                             recomputed->savedBytes(a, kept) + behind)
                  : behind;
}

/// A pass of `all` seconds on the device, `exchanged` of them communication, for which
/// the host takes `host`: as long as the longer of the two takes.
simulate::Work StageCosts::launched(double all, double exchanged, double host) const {
  bool waits = model.getCluster().software.waitsForKernels;
  double longer = waits ? all + host : std::max(all, host);
  return {std::max(0.0, longer - exchanged), exchanged, 0};
}

simulate::Work StageCosts::recomputation(int a, int b, int kept) const {
  double all = profile.seconds(kept, b).recompute;
  double exchanged = profile.communication(kept, b).recompute;
  double host = profile.host(kept, b).recompute;
  if (kept > a) {
    all += recomputed->seconds(a, kept).recompute;
    exchanged += recomputed->communication(a, kept).recompute;
    host += recomputed->host(a, kept).recompute;
  }
  return launched(all, exchanged, host);
}

simulate::StageCost StageCosts::stage(int a, int b, int kept) const {
  PassSeconds all = profile.seconds(a, b), exchanged = profile.communication(a, b);
  PassSeconds host = profile.host(a, b);
  simulate::StageCost cost;
  auto work = [&](double PassSeconds::*pass) {
    return launched(all.*pass, exchanged.*pass, host.*pass);
  };
  cost.forward = work(&PassSeconds::forward);
  if (model.getCluster().software.waitsForBatches)
    cost.forward.compute += kBatchSeconds;
  cost.recompute = recomputation(a, b, kept);
  cost.inputGrad = work(&PassSeconds::inputGrad);
  cost.weightGrad = work(&PassSeconds::weightGrad);
  double parts = pieces(a, b), gathered = 0, scattered = 0, overlapped = 0;
  for (const WeightClass &weights : classes) {
    if (Exchange all = gather(weights, a, b); all.seconds > 0) {
      addBeside(cost.forward, all.seconds, parts, overlaps());
      addBeside(cost.inputGrad, all.seconds, parts, overlaps());
      gathered += all.bytes;
    }
    cost.weightGrad.compute += accumulation(weights, a, b);
    if (Exchange all = scatter(weights, a, b); all.seconds > 0) {
      addBeside(cost.weightGrad, all.seconds, parts, overlaps());
      scattered += all.bytes;
    }
    for (const Exchange &sum : reductions(weights, a, b)) {
      cost.reductionSeconds += sum.seconds;
      overlapped += overlaps() ? sum.seconds * (1 - lastShare(weights, a, b)) : 0;
    }
  }
  cost.reductionOverlap = cost.reductionSeconds > 0 ? overlapped / cost.reductionSeconds : 0;
  cost.savedBytes = double(savedBytes(a, b, kept));
  cost.keptBytes = cost.savedBytes;
  double transient = double(peakBytes(a, b, kept)) - cost.savedBytes;
  // The block that computes and the one that is fetched meanwhile.
  double ahead = std::min(2.0, parts) / parts;
  cost.forwardTransient = transient + ahead * gathered;
  cost.backwardTransient = transient + ahead * (gathered + scattered);
  cost.weightGradTransient = cost.backwardTransient;
  return cost;
}

double StageCosts::sentShare() const {
  bool whole = degrees.tp > 1 && !degrees.sp; // on each rank of the group
  return whole && model.getCluster().software.scattersSends ? 1 / double(degrees.tp) : 1;
}

simulate::Boundary StageCosts::boundary(int unit, int64_t index) const {
  simulate::Boundary result;
  result.forwardBytes = double(profile.forwardBytes(unit));
  result.backwardBytes = double(profile.backwardBytes(unit));
  double bytes = std::max({1.0, result.forwardBytes, result.backwardBytes});
  auto [sender, receiver] = farthestPair(degrees, model.getCluster(), index);
  result.latency = model.p2pSeconds(1, sender, receiver);
  double seconds = model.p2pSeconds(bytes * sentShare(), sender, receiver) - result.latency;
  result.bandwidth = bytes / std::max(seconds, 1e-12);
  if (sentShare() < 1)
    result.latency += exchange(StepKind::AllGather, mesh.ofDegree("tp"), bytes, 1).seconds;
  result.level = model.levelBetween(sender, receiver);
  return result;
}

//===-- ranks -------------------------------------------------------------===//

/// One bucket of gradients that software copies to reduce them together.
int64_t StageCosts::bucketBytes(const Runs &runs) const {
  int64_t bucket = model.getCluster().software.bucketElements, gradients = 0, elements = 0;
  for (auto [a, b] : runs)
    for (const WeightClass &weights : classes)
      if (weights.trained && !weights.pending.empty()) {
        gradients += weights.gradients(a, b);
        elements += weights.elements(a, b);
      }
  if (elements == 0)
    return 0;
  double each = double(gradients) / double(elements);
  return static_cast<int64_t>(each * double(std::min(bucket, elements)));
}

MemoryUse StageCosts::staticBytes(const Runs &runs) const {
  MemoryUse use;
  for (auto [a, b] : runs)
    for (const WeightClass &weights : classes) {
      use.parameters += weights.parameters(a, b) / mesh.size(weights.storage);
      use.gradients += weights.gradients(a, b) / mesh.size(weights.gradient) + weights.kept(a, b);
      if (degrees.offload == Offload::None)
        use.optimizer += weights.states(a, b) / mesh.size(weights.state);
    }
  // While one fills, another is being reduced.
  use.gradients += overlaps() ? 2 * bucketBytes(runs) : 0;
  return use;
}

int64_t StageCosts::updateBytes(const Runs &runs) const {
  int64_t result = overlaps() ? 0 : bucketBytes(runs);
  for (auto [a, b] : runs)
    for (const WeightClass &weights : classes)
      if (degrees.offload == Offload::None)
        result += weights.update(a, b) / mesh.size(weights.state);
  return result;
}

int64_t StageCosts::parameterElements(int a, int b) const {
  int64_t result = 0;
  for (const WeightClass &weights : classes)
    result += weights.elements(a, b) / mesh.size(weights.storage);
  return result;
}

simulate::RankCost StageCosts::rank(const Runs &runs, double tiedBytes) const {
  simulate::RankCost cost;
  MemoryUse use = staticBytes(runs);
  cost.staticBytes = double(use.parameters + use.gradients + use.optimizer);
  cost.updateTransient = double(updateBytes(runs));
  double traffic = 0, overLink = 0, inHost = 0, count = 0;
  for (auto [a, b] : runs)
    for (const WeightClass &weights : classes) {
      if (!weights.trained)
        continue;
      auto ways = double(mesh.size(weights.state));
      double parameter = double(weights.parameters(a, b)) / ways;
      double gradient = double(weights.gradients(a, b)) / ways;
      double states = double(weights.states(a, b) + weights.update(a, b)) / ways;
      count += double(weights.count(a, b));
      // The gradient's norm reads it once more.
      if (degrees.offload == Offload::Optimizer) {
        traffic += gradient;
        overLink += gradient + parameter;
        inHost += gradient + parameter + 2 * states;
      } else {
        traffic += 2 * parameter + 2 * gradient + 2 * states;
      }
      cost.update.blocking += regather(weights, a, b).seconds;
    }
  cost.update.compute = model.streamSeconds(traffic) +
                        2 * count * model.launchSeconds() +
                        std::max(overLink / kHostLinkBandwidth, inHost / kHostMemoryBandwidth);
  constexpr double scalarBytes = 8;
  for (const AxisList &axes : scalarSums)
    cost.update.blocking += exchange(StepKind::AllReduce, axes, scalarBytes, 1).seconds;
  cost.update.blocking += tiedSeconds(tiedBytes);
  return cost;
}

/// Bytes of gradients that a rank holds and another one, too.
double StageCosts::tiedBytes(const std::vector<int> &cuts, int64_t rank) const {
  auto stages = static_cast<int64_t>(cuts.size()) - 1;
  double result = 0;
  for (const auto &[readers, bytes] : shared) {
    bool here = false, elsewhere = false;
    for (int unit : readers) {
      auto after = std::upper_bound(cuts.begin(), cuts.end(), unit);
      int64_t stage = std::min<int64_t>(after - cuts.begin() - 1, stages - 1);
      (stage % degrees.pp == rank ? here : elsewhere) = true;
    }
    if (here && elsewhere)
      result += double(bytes);
  }
  return result;
}

double StageCosts::tiedSeconds(double bytes) const {
  return bytes > 0 ? 2 * model.p2pSeconds(bytes, 0, pipelineStride) : 0;
}

simulate::Costs StageCosts::costs(const std::vector<int> &cuts,
                                  const std::vector<int> &kept) const {
  simulate::Costs result;
  auto stages = static_cast<int64_t>(cuts.size()) - 1;
  for (int64_t i = 0; i < stages; ++i) {
    result.stages.push_back(stage(cuts[i], cuts[i + 1], kept.empty() ? cuts[i] : kept[i]));
    if (i > 0)
      result.boundaries.push_back(boundary(cuts[i], i - 1));
  }
  for (int64_t rank = 0; rank < degrees.pp; ++rank)
    result.ranks.push_back(this->rank(runsOf(cuts, rank), tiedBytes(cuts, rank)));
  Slowdown both = slowdown();
  result.slowdown = {both.compute, both.communication};
  result.blockingSends = blockingSends();
  return result;
}

Slowdown StageCosts::slowdown() const {
  sharding::AxisList data = batchAxes(mesh);
  if (!overlaps() || data.empty())
    return {};
  return model.overlapSlowdown(model.groupShape(data, mesh).level);
}

StageCosts::Runs StageCosts::runsOf(const std::vector<int> &cuts, int64_t rank) const {
  Runs runs;
  for (size_t i = static_cast<size_t>(rank); i + 1 < cuts.size(); i += degrees.pp)
    runs.emplace_back(cuts[i], cuts[i + 1]);
  return runs;
}

} // namespace dtc::plan
