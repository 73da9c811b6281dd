#include "PlacedPrograms.h"

#include "dtc/Plan/Predict/StageCosts.h"

#include "dtc/Plan/Cost/PipelineLinks.h"

#include "dtc/Schedule/Descriptor.h"
#include "dtc/Schedule/SumRounds.h"

#include <algorithm>
#include <set>

namespace dtc::plan {

using sharding::AxisList;
using sharding::StepKind;

/// Optimizer state kept in host memory. Bytes/s of one device over PCIe 4.0 x16 as measured, and of
/// one device's share of a server's memory for the update.
static constexpr double kHostLinkBandwidth = 25e9, kHostMemoryBandwidth = 20e9;

/// The host's time to make a microbatch ready: to load it, broadcast it among tensor-parallel
/// ranks and make its mask, or to receive it. Fitted (docs/CostModel.md).
static constexpr double kBatchSeconds = 2e-3;

std::vector<StageRun> runsBetween(const std::vector<int> &cuts) {
  std::vector<StageRun> runs;
  for (size_t i = 0; i + 1 < cuts.size(); ++i)
    runs.emplace_back(cuts[i], cuts[i + 1]);
  return runs;
}

bool anyWithin(const std::vector<int> &units, int begin, int end) {
  auto first = std::lower_bound(units.begin(), units.end(), begin);
  return first != units.end() && *first < end;
}

StageCosts::StageCosts(const CostModel &model, const Degrees &degrees,
                       const sharding::Mesh &mesh, const UnitCosts &unitCosts,
                       Weights weights, const std::vector<Block> &blocks,
                       std::vector<AxisList> scalarSums, std::shared_ptr<CollectiveTimes> given)
    : model(model), degrees(degrees), mesh(mesh), unitCosts(unitCosts),
      classes(std::move(weights.classes)), shared(std::move(weights.shared)),
      data(std::move(weights.data)), scalarSums(std::move(scalarSums)), times(std::move(given)) {
  if (!times)
    times = std::make_shared<CollectiveTimes>(model);
  for (WeightClass &each : classes) {
    each.ranks = {mesh.size(each.storage), mesh.size(each.gradient), mesh.size(each.state),
                  mesh.size(each.pending)};
    each.rest = without(each.pending, each.gradient.empty() ? each.state : each.gradient);
  }
  exchanged = findExchanged();
  countBlocks(blocks, weights.higherBlocks);
}

/// A block counts where it begins.
void StageCosts::countBlocks(const std::vector<Block> &blocks, const std::vector<bool> &higher) {
  blocksBefore.assign(unitCosts.units() + 1, 0);
  if (!higher.empty())
    higherBefore.assign(unitCosts.units() + 1, 0);
  for (size_t block = 0; block < blocks.size(); ++block) {
    int unit = unitCosts.unitOf(blocks[block].first);
    ++blocksBefore[unit + 1];
    if (!higher.empty() && higher[block])
      ++higherBefore[unit + 1];
  }
  for (std::vector<int> *before : {&blocksBefore, &higherBefore})
    for (size_t unit = 1; unit < before->size(); ++unit)
      (*before)[unit] += (*before)[unit - 1];
}

bool blockingSends(const Software &software, ScheduleKind schedule) {
  return !software.overlapCommunication &&
         !(software.overlapsSends && describe(schedule).sendsBesideCalls);
}

bool StageCosts::overlaps() const {
  return !model.getCluster().sharedMemory && model.getCluster().software.overlapCommunication;
}

//===-- stages ------------------------------------------------------------===//

static simulate::Work beside(double seconds, double pieces, bool overlaps) {
  double exposed = overlaps ? seconds / pieces : seconds;
  return {0, exposed, seconds - exposed};
}

/// Adding a microbatch's gradients to what earlier ones left. Of gradients that are
/// scattered only the rank's part is added, once it has come.
double StageCosts::accumulation(const WeightClass &weights, const StageRun &run) const {
  if (degrees.numMicrobatches == 1 || !weights.trained)
    return 0;
  int64_t parts = weights.ranks.gradient;
  return model.accumulationSeconds(double(weights.gradients(run)) / double(parts), parts > 1);
}

/// A pass of `all` seconds on the device, `exchanged` of them communication, for which the host
/// takes `host`. It is as long as the longer of the two takes.
simulate::Work StageCosts::launched(double all, double exchanged, double host) const {
  bool waits = model.getCluster().software.waitsForKernels;
  double longer = waits ? all + host : std::max(all, host);
  return {std::max(0.0, longer - exchanged), exchanged, 0};
}

simulate::Work StageCosts::recomputation(const StageRun &run) const {
  double all = unitCosts.seconds(run.kept, run.end).recompute;
  double exchanged = unitCosts.communication(run.kept, run.end).recompute;
  double host = unitCosts.host(run.kept, run.end).recompute;
  if (run.kept > run.begin) {
    all += recomputed->seconds(run.begin, run.kept).recompute;
    exchanged += recomputed->communication(run.begin, run.kept).recompute;
    host += recomputed->host(run.begin, run.kept).recompute;
  }
  return launched(all, exchanged, host);
}

simulate::StageCost StageCosts::stageSeconds(const StageRun &run) const {
  PassSeconds all = unitCosts.seconds(run.begin, run.end);
  PassSeconds exchanged = unitCosts.communication(run.begin, run.end);
  PassSeconds host = unitCosts.host(run.begin, run.end);
  simulate::StageCost cost;
  auto work = [&](double PassSeconds::*pass) {
    return launched(all.*pass, exchanged.*pass, host.*pass);
  };
  cost.forward = work(&PassSeconds::forward);
  if (model.getCluster().software.waitsForBatches)
    cost.forward.compute += kBatchSeconds;
  cost.recompute = recomputation(run);
  cost.inputGrad = work(&PassSeconds::inputGrad);
  cost.weightGrad = work(&PassSeconds::weightGrad);
  const Parameters &parameters = parametersOf(run);
  for (const Parameters::Class &weights : parameters.classes) {
    cost.forward = cost.forward + weights.gathers[0];
    cost.inputGrad = cost.inputGrad + weights.gathers[1];
    cost.weightGrad.compute += weights.accumulation;
    cost.weightGrad = cost.weightGrad + weights.scatters;
  }
  cost.reductionSeconds = parameters.reductionSeconds;
  cost.reductionOverlap = parameters.reductionOverlap;
  return cost;
}

double StageCosts::transientBytes(const StageRun &run) const {
  const Parameters &parameters = parametersOf(run);
  return std::max(parameters.forwardTransient, parameters.backwardTransient);
}

simulate::StageCost StageCosts::stage(const StageRun &run) const {
  simulate::StageCost cost = stageSeconds(run);
  const Parameters &parameters = parametersOf(run);
  cost.savedBytes = double(savedBytes(run));
  cost.keptBytes = double(keptBytes(run));
  double transient = double(peakBytes(run)) - cost.savedBytes;
  cost.forwardTransient = parameters.forwardTransient + transient;
  cost.backwardTransient = parameters.backwardTransient + transient;
  if (schedule::describe(degrees.schedule).splitsBackward())
    transient = std::min(transient, double(temporaryBytes(StageCall::WeightGrad, run)));
  cost.weightGradTransient = parameters.backwardTransient + transient;
  cost.waitingBytes = double(waitingBytes(run));
  if (degrees.pp == 1 || !hasPlaces(model.getCluster().software))
    return cost; // calls without places of their own
  auto own = [&](StageCall call, double parameters) {
    return parameters + double(temporaryBytes(call, run));
  };
  cost.temporaries = {own(StageCall::Forward, parameters.forwardTransient),
                      own(StageCall::Backward, parameters.backwardTransient),
                      own(StageCall::InputGrad, parameters.backwardTransient),
                      own(StageCall::WeightGrad, parameters.backwardTransient)};
  return cost;
}

/// Found once for stages of as many of the repeated units.
const StageCosts::Parameters &StageCosts::parametersOf(StageRun run) const {
  int shift = higherBefore.empty() ? unitCosts.folded().shift(run.begin, run.end) : 0;
  int units = unitCosts.units() + 1;
  run.begin -= shift;
  run.end -= shift;
  run.kept = run.begin;
  int64_t key = int64_t{run.begin} * units + run.end;
  if (const Parameters *found = known.find(key))
    return *found;
  Parameters &result = known.add(key);
  findParameters(run, result);
  return result;
}

void StageCosts::findParameters(const StageRun &run, Parameters &result) const {
  result.classes.reserve(classes.size());
  const double gathers[] = {gathersOf(run, false), gathersOf(run, true)};
  const double scatters = scattersOf(run);
  double gathered = 0, scattered = 0, parts = 0, overlapped = 0;
  for (const WeightClass &weights : classes) {
    Parameters::Class &own = result.classes.emplace_back();
    for (bool backward : {false, true})
      if (Exchange all = gather(weights, run, backward); all.seconds > 0) {
        own.gathers[backward] = beside(all.seconds, gathers[backward], overlaps());
        gathered += backward ? 0 : all.bytes;
      }
    own.accumulation = accumulation(weights, run);
    if (Exchange all = scatter(weights, run); all.seconds > 0) {
      own.scatters = beside(all.seconds, scatters, overlaps());
      scattered += all.bytes;
      parts += all.bytes / double(weights.ranks.gradient);
    }
    for (const Exchange &sum : reductions(weights, run)) {
      result.reductionSeconds += sum.seconds;
      overlapped += overlaps() ? sum.seconds * (1 - lastShare(weights, run)) : 0;
    }
  }
  if (result.reductionSeconds > 0)
    result.reductionOverlap = overlapped / result.reductionSeconds;
  if (exchanged > 0) {
    // Counted step by step, but for a block's parts that wait to be added up.
    if (degrees.numMicrobatches > 1 && scattered > 0)
      result.waitingShare = parts / scattered;
  } else {
    // The block that computes and the one that is fetched meanwhile.
    result.forwardTransient = gathered * std::min(2.0, gathers[0]) / gathers[0];
    result.backwardTransient =
        result.forwardTransient + scattered * std::min(2.0, scatters) / scatters;
  }
  result.rank = sumOf({&run, 1});
}

double StageCosts::sentShare() const {
  bool whole = degrees.tp > 1 && !degrees.sp; // on each rank of the group
  return whole && model.getCluster().software.scattersSends ? 1 / double(degrees.tp) : 1;
}

simulate::Boundary StageCosts::boundary(int unit, int64_t from, int64_t to) const {
  simulate::Boundary result;
  result.forwardBytes = double(unitCosts.forwardBytes(unit));
  result.backwardBytes = double(unitCosts.backwardBytes(unit));
  double bytes = std::max({1.0, result.forwardBytes, result.backwardBytes});
  auto [sender, receiver] = farthestPair(degrees, model.getCluster(), from, to);
  result.latency = model.p2pSeconds(1, sender, receiver);
  double seconds = model.p2pSeconds(bytes * sentShare(), sender, receiver) - result.latency;
  result.bandwidth = bytes / std::max(seconds, 1e-12);
  if (sentShare() < 1 && from != to)
    result.latency += exchange(StepKind::AllGather, mesh.ofDegree("tp"), bytes, 1).seconds;
  result.level = model.levelBetween(sender, receiver);
  return result;
}

//===-- ranks -------------------------------------------------------------===//

/// One bucket of gradients that software copies to reduce them together.
int64_t StageCosts::bucketBytes(std::span<const StageRun> runs) const {
  int64_t bucket = model.getCluster().software.bucketElements, gradients = 0, elements = 0;
  for (const StageRun &run : runs)
    for (const WeightClass &weights : classes)
      if (weights.trained && !weights.pending.empty() && !reducesHalfSums(weights, run)) {
        gradients += weights.gradients(run);
        elements += weights.elements(run);
      }
  if (elements == 0)
    return 0;
  double each = double(gradients) / double(elements);
  return static_cast<int64_t>(each * double(std::min(bucket, elements)));
}

/// Buckets that are there all the time: while one fills, another is being reduced.
int64_t StageCosts::residentBuckets(std::span<const StageRun> runs) const {
  return overlaps() ? 2 * bucketBytes(runs) : 0;
}

/// Of the model's buffers, or of all else.
int64_t StageCosts::dataBytes(std::span<const StageRun> runs, bool buffers) const {
  using Lifetime = Weights::Data::Lifetime;
  int64_t result = 0;
  for (const Weights::Data &each : data)
    if ((each.lifetime == Lifetime::Buffer) == buffers &&
        std::any_of(runs.begin(), runs.end(),
                    [&](const StageRun &run) { return anyWithin(each.units, run.begin, run.end); }))
      result += each.bytes * (each.lifetime == Lifetime::Microbatch ? degrees.numMicrobatches : 1);
  return result;
}

MemoryUse StageCosts::staticBytes(std::span<const StageRun> runs) const {
  MemoryUse use;
  use.parameters = dataBytes(runs, true);
  use.data = dataBytes(runs, false);
  for (const StageRun &run : runs)
    for (const WeightClass &weights : classes) {
      use.parameters += weights.parameters(run) / weights.ranks.storage;
      use.gradients += weights.gradients(run) / weights.ranks.gradient + weights.kept(run);
      if (degrees.offload == Offload::None)
        use.optimizer += weights.states(run) / weights.ranks.state;
    }
  use.gradients += residentBuckets(runs);
  if (runs.size() > 1 && hasPlaces(model.getCluster().software))
    countSharedOnce(runs, use);
  return use;
}

/// Chunks of one rank that read the same parameter have one copy of it. Each adds up a gradient of
/// its own, so that stages are added in their order.
void StageCosts::countSharedOnce(std::span<const StageRun> runs, MemoryUse &use) const {
  for (const Weights::Shared &weight : shared) {
    auto readers = std::count_if(runs.begin(), runs.end(), [&](const StageRun &run) {
      return anyWithin(weight.units, run.begin, run.end);
    });
    const WeightClass::Ranks &ranks = classes[weight.weights].ranks;
    for (; readers > 1; --readers) {
      use.parameters -= weight.bytes.parameter / ranks.storage;
      if (degrees.offload == Offload::None)
        use.optimizer -= weight.bytes.states / ranks.state;
    }
  }
}

double StageCosts::hostBytes(const Runs &runs) const {
  double result = 0;
  for (const StageRun &run : runs)
    for (const WeightClass &weights : classes)
      if (degrees.offload == Offload::Optimizer)
        result += double(weights.states(run) + weights.update(run)) /
                  double(mesh.size(weights.state));
  return result;
}

int64_t StageCosts::parameterElements(const StageRun &run) const {
  int64_t result = 0;
  for (const WeightClass &weights : classes)
    result += weights.elements(run) / weights.ranks.storage;
  return result;
}

simulate::RankCost StageCosts::rank(const Runs &runs) const {
  return runs.size() == 1 ? parametersOf(runs[0]).rank : sumOf(runs);
}

simulate::RankCost StageCosts::sumOf(std::span<const StageRun> runs) const {
  simulate::RankCost cost;
  MemoryUse use = staticBytes(runs);
  cost.staticBytes = double(use.allocated());
  cost.updateTransient = double(betweenCalls(runs).most());
  const Software &software = model.getCluster().software;
  double traffic = 0, overLink = 0, inHost = 0, count = 0;
  for (const StageRun &run : runs)
    for (const WeightClass &weights : classes) {
      if (!weights.trained)
        continue;
      auto ways = double(weights.ranks.state);
      double parameter = double(weights.parameters(run)) / ways;
      double gradient = double(weights.gradients(run)) / ways;
      double states = double(weights.states(run) + weights.update(run)) / ways;
      count += double(weights.count(run));
      // The gradient's norm reads it once more.
      if (degrees.offload == Offload::Optimizer && software.updatesOnHost) {
        traffic += gradient;
        overLink += gradient + parameter;
        inHost += gradient + parameter + 2 * states;
      } else {
        traffic += 2 * parameter + 2 * gradient + 2 * states;
      }
      if (degrees.offload == Offload::Optimizer && !software.updatesOnHost) {
        overLink += 2 * states; // one after the other: one queue copies
        traffic += 2 * states;
      }
      cost.update.blocking += regather(weights, run).seconds;
    }
  double onDevice = model.streamSeconds(traffic) + model.updateLaunchSeconds(count);
  double atHost = std::max(overLink / kHostLinkBandwidth, inHost / kHostMemoryBandwidth);
  // States that pass through do so beside the update of others.
  cost.update.compute = software.updatesOnHost ? onDevice + atHost : std::max(onDevice, atHost);
  for (const AxisList &axes : scalarSums)
    cost.update.blocking += exchange(StepKind::AllReduce, axes, kStepVectorBytes, 1).seconds;
  return cost;
}

static int64_t stageOf(int unit, const std::vector<StageRun> &stages) {
  auto after = std::upper_bound(stages.begin(), stages.end(), unit,
                                [](int unit, const StageRun &stage) { return unit < stage.begin; });
  return after - stages.begin() - 1;
}

/// The stages that read a weight, and the rank of each.
struct Readers {
  std::vector<int64_t> stages, ranks;
};

static Readers readersOf(const Weights::Shared &weight, const std::vector<StageRun> &stages,
                         const schedule::Placement &placement) {
  Readers readers;
  for (int unit : weight.units) {
    const int64_t stage = stageOf(unit, stages);
    if (!readers.stages.empty() && readers.stages.back() == stage)
      continue;
    readers.stages.push_back(stage);
    readers.ranks.push_back(placement.rank(stage));
  }
  return readers;
}

/// The rounds of their sum in which a rank takes part with others.
static std::vector<schedule::SumRound> roundsOf(const Readers &readers, int64_t rank) {
  std::vector<schedule::SumRound> rounds =
      schedule::sumRounds(readers.stages, readers.ranks, readers.ranks);
  std::erase_if(rounds, [&](const schedule::SumRound &round) {
    return round.ranks.size() <= 1 ||
           std::find(round.ranks.begin(), round.ranks.end(), rank) == round.ranks.end();
  });
  return rounds;
}

std::vector<StageCosts::Tied>
StageCosts::tied(const Runs &stages, const schedule::Placement &placement, int64_t rank) const {
  std::vector<Tied> result;
  for (const Weights::Shared &weight : shared) {
    const Readers readers = readersOf(weight, stages, placement);
    const auto [first, last] = std::minmax_element(readers.ranks.begin(), readers.ranks.end());
    const size_t rounds = roundsOf(readers, rank).size();
    const auto bytes = double(weight.bytes.gradient * int64_t(rounds));
    if (bytes == 0)
      continue;
    auto known = std::find_if(result.begin(), result.end(), [&](const Tied &other) {
      return other.first == *first && other.last == *last;
    });
    if (known == result.end())
      result.push_back({*first, *last, bytes});
    else
      known->bytes += bytes;
  }
  return result;
}

int64_t StageCosts::tiedGroups(const Runs &stages, const schedule::Placement &placement,
                               int64_t rank, bool areApart) const {
  if (!hasPlaces(model.getCluster().software))
    return 0;
  std::set<std::vector<int64_t>> groups;
  for (const Weights::Shared &weight : shared)
    if (weight.bytes.gradient > 0)
      for (schedule::SumRound &round : roundsOf(readersOf(weight, stages, placement), rank)) {
        std::sort(round.ranks.begin(), round.ranks.end());
        groups.insert(std::move(round.ranks));
      }
  return std::count_if(groups.begin(), groups.end(), [&](const std::vector<int64_t> &ranks) {
    return (mesh.devices() > 1 && !areApart) || int64_t(ranks.size()) < degrees.pp;
  });
}

double StageCosts::tiedSeconds(const Runs &stages, const schedule::Placement &placement,
                               int64_t rank) const {
  double seconds = 0;
  for (const Tied &own : tied(stages, placement, rank)) {
    auto [from, to] = farthestPair(degrees, model.getCluster(), own.first, own.last);
    seconds += 2 * model.p2pSeconds(own.bytes, from, to);
  }
  return seconds;
}

simulate::Costs StageCosts::costs(const Runs &stages, const schedule::Placement &placement) const {
  simulate::Costs result;
  for (size_t i = 0; i < stages.size(); ++i) {
    result.stages.push_back(stage(stages[i]));
    if (i > 0)
      result.boundaries.push_back(
          boundary(stages[i].begin, placement.rank(int64_t(i) - 1), placement.rank(int64_t(i))));
    if (i > 0 && placement.staysAfter(int64_t(i) - 1))
      result.boundaries.back().slotBytes = double(handedOverInSlots(stages[i - 1], stages[i]));
  }
  for (int64_t rank = 0; rank < degrees.pp; ++rank) {
    result.ranks.push_back(this->rank(runsOf(stages, placement, rank)));
    result.ranks.back().update.blocking += tiedSeconds(stages, placement, rank);
  }
  result.slowdown = slowdown();
  result.blockingSends = blockingSends();
  result.placed = hasPlaces(model.getCluster().software);
  return result;
}

OverlapSlowdown StageCosts::slowdown() const {
  sharding::AxisList data = batchAxes(mesh);
  if (!overlaps() || data.empty())
    return {};
  return model.overlapSlowdown(model.groupShape(data, mesh).level);
}

std::vector<StageRun> runsOf(const std::vector<StageRun> &stages,
                             const schedule::Placement &placement, int64_t rank) {
  std::vector<StageRun> runs;
  for (int64_t chunk = 0; chunk < placement.chunks(); ++chunk)
    runs.push_back(stages[placement.stage(rank, chunk)]);
  return runs;
}

int64_t rankOf(int unit, const std::vector<StageRun> &stages,
               const schedule::Placement &placement) {
  return placement.rank(stageOf(unit, stages));
}

} // namespace dtc::plan
