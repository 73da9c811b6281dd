// What a plan costs: its execution, cut into stages, on the simulator.
#include "UniformStages.h"
#include "StepParts.h"

#include "dtc/Plan/Plan/Trains.h"
#include "dtc/Plan/Predict/HostMemory.h"
#include "dtc/Plan/Predict/Predict.h"
#include "dtc/Plan/Predict/StageDevices.h"
#include "dtc/Schedule/Descriptor.h"
#include "dtc/Schedule/ForwardPasses.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

namespace dtc::plan {

using sharding::StepKind;

/// Contractions forward and backward; attention's gradient counts twice its
/// forward pass, however much of that it computes again.
static void addFlops(const PlannedModel &planned, Prediction &to) {
  const auto microbatches = double(planned.numMicrobatches);
  for (size_t id = 0; id < planned.problem.ops.size(); ++id) {
    const Op &op = planned.problem.ops[id];
    if (op.backward == BackwardKind::Recompute || op.kind == OpKind::Lookup)
      continue; // of a look-up, flops are comparisons
    bool isAttention = op.backward && op.kind == OpKind::Attention && op.forward >= 0;
    double times = planned.folding ? planned.folding->timesOf(planned.folding->opHome[id]) : 1;
    const Op &counted = isAttention ? planned.problem.ops[op.forward] : op;
    times *= isAttention ? 2 * microbatches : microbatches;
    to.modelFlops += times * (counted.flops - counted.padding);
    to.paddingFlops += times * counted.padding;
  }
}

namespace {

class Predictor {
public:
  Predictor(const PlannedModel &planned, const Plan &plan, const Cluster &cluster,
            const Workspace *workspace);
  /// False where a folded model doesn't tell what the whole one does.
  bool start();
  Prediction run(MemoryDetail detail);
  simulate::Timeline traced();

private:
  void simulateStages(const simulate::Costs &stages);
  void addStages(const simulate::Costs &stages);
  void addMemory(MemoryDetail detail);
  void addHosts();
  void addCollectives(const simulate::Costs &stages);
  void addParts(const simulate::Costs &stages);
  void addTransfers(int64_t rank, const simulate::Costs &stages,
                    std::vector<CollectiveUse> &uses) const;

  /// What a rank's stages cost with its mesh on its devices.
  const UniformStages &on(int64_t rank) const { return *classes[devices.classOf[rank]]; }
  bool isMixed() const { return classes.size() > 1; }
  MixedStages mixed() const;
  double tiedSeconds(int64_t rank) const;
  simulate::Costs stageCosts() const;
  int stageCount() const { return static_cast<int>(plan.stages.size()); }

  const PlannedModel planned;
  const Plan &plan;
  const Cluster &cluster;
  const std::vector<Block> &blocks; ///< of the whole model
  const schedule::Placement placement;
  StageDevices devices;
  std::deque<Plan> plans;       ///< of the classes, where there are several
  std::deque<Cluster> clusters; ///< the same
  std::vector<std::unique_ptr<UniformStages>> classes;
  simulate::Options options;
  std::optional<schedule::Schedule> schedule;
  simulate::Timeline timeline;
  Prediction result;
};

} // namespace

/// By pipeline rank, from its first device to its last.
static std::vector<DeviceRange> devicesOf(const Plan &plan) {
  std::vector<DeviceRange> ranges;
  for (int64_t rank = 0; rank < plan.degrees.pp; ++rank) {
    const std::vector<int64_t> &devices = plan.stages[rank].devices;
    auto [first, last] = std::minmax_element(devices.begin(), devices.end());
    ranges.push_back({*first, *last - *first + 1});
  }
  return ranges;
}

Predictor::Predictor(const PlannedModel &planned, const Plan &plan, const Cluster &cluster,
                     const Workspace *workspace)
    : planned(planned), plan(plan), cluster(cluster), blocks(planned.blocks),
      placement(placementOf(plan.degrees)), devices(cluster, devicesOf(plan), plan.degrees) {
  int64_t count = plan.degrees.devices();
  if (devices.classes.size() == 1)
    classes.push_back(std::make_unique<UniformStages>(planned, plan, cluster, count, workspace));
  else
    for (const StageDevices::RankClass &rankClass : devices.classes) {
      plans.push_back(inGroup(plan, rankClass.group));
      clusters.push_back(clusterOf(cluster, rankClass.range));
      classes.push_back(std::make_unique<UniformStages>(planned, plans.back(), clusters.back(),
                                                        count, workspace));
    }
}

bool Predictor::start() {
  return std::all_of(classes.begin(), classes.end(),
                     [](auto &rankClass) { return rankClass->start(); });
}

MixedStages Predictor::mixed() const {
  std::vector<const StageCosts *> byRank;
  for (int64_t rank = 0; rank < plan.degrees.pp; ++rank)
    byRank.push_back(&on(rank).costs());
  return {cluster, std::move(byRank), devices.ranks};
}

simulate::Costs Predictor::stageCosts() const {
  const StageCosts::Runs &stages = classes[0]->getStages();
  return isMixed() ? mixed().costs(stages, placement) : classes[0]->costs().costs(stages, placement);
}

double Predictor::tiedSeconds(int64_t rank) const {
  const StageCosts::Runs &stages = classes[0]->getStages();
  if (isMixed())
    return mixed().tiedSeconds(stages, placement, rank);
  return classes[0]->costs().tiedSeconds(stages, placement, rank);
}

//===-- collectives -------------------------------------------------------===//

/// What the rank sends to the stages beside its own.
void Predictor::addTransfers(int64_t rank, const simulate::Costs &stages,
                             std::vector<CollectiveUse> &uses) const {
  int64_t times = planned.numMicrobatches;
  double share = isMixed() ? 1 : classes[0]->costs().sentShare();
  auto send = [&](const simulate::Boundary &boundary, double bytes) {
    if (bytes <= 0)
      return;
    CollectiveUse use{StepKind::Permute, "pp", times, std::llround(bytes * share),
                      double(times) * (boundary.latency + bytes / boundary.bandwidth)};
    use.send = true;
    merge(uses, use);
  };
  for (int64_t chunk = 0; chunk < placement.chunks(); ++chunk) {
    int64_t stage = placement.stage(rank, chunk);
    if (stage + 1 < stageCount() && placement.rank(stage + 1) != rank)
      send(stages.boundaries[stage], stages.boundaries[stage].forwardBytes);
    if (stage > 0 && placement.rank(stage - 1) != rank)
      send(stages.boundaries[stage - 1], stages.boundaries[stage - 1].backwardBytes);
  }
}

/// Of the rank that communicates longest.
void Predictor::addCollectives(const simulate::Costs &stages) {
  double longest = -1;
  for (int64_t rank = 0; rank < plan.degrees.pp; ++rank) {
    std::vector<CollectiveUse> uses;
    on(rank).addMicrobatchCollectives(rank, uses);
    on(rank).addStorageCollectives(rank, uses);
    on(rank).addScalarCollectives(uses);
    addTransfers(rank, stages, uses);
    double seconds = 0;
    for (const CollectiveUse &use : uses)
      seconds += use.seconds;
    if (seconds > longest) {
      longest = seconds;
      result.collectives = std::move(uses);
    }
  }
}

/// Where the step goes, for those who compare plans.
void Predictor::addParts(const simulate::Costs &stages) {
  if (!schedule)
    return;
  SimulatedStep step{timeline, stages, *schedule, {}, {}};
  for (int64_t rank = 0; rank < plan.degrees.pp; ++rank) {
    std::vector<CollectiveUse> inside, data;
    on(rank).addMicrobatchCollectives(rank, inside);
    on(rank).addStorageCollectives(rank, data);
    on(rank).addScalarCollectives(data);
    for (const CollectiveUse &use : inside)
      step.inside[use.axis] += use.seconds;
    for (const CollectiveUse &use : data)
      step.data[use.axis] += use.seconds;
    step.tied += tiedSeconds(rank);
  }
  result.parts = stepParts(step);
}

//===-- time and memory ---------------------------------------------------===//

static double serial(const simulate::Work &work) {
  return work.compute + work.blocking + work.overlapped;
}

void Predictor::addStages(const simulate::Costs &stages) {
  for (int stage = 0; stage < stageCount(); ++stage) {
    const simulate::StageCost &cost = stages.stages[stage];
    StagePrediction entry;
    entry.devices = plan.stages[stage].devices;
    const UniformStages &own = on(placement.rank(stage));
    entry.parameters = own.costs().parameterElements(own.getStages()[stage]);
    auto seconds = [&](const simulate::Work &call) {
      return simulate::callSeconds(call, stages.slowdown);
    };
    entry.forwardSeconds = seconds(cost.forward);
    simulate::Work inputs = cost.recompute + cost.inputGrad;
    entry.backwardSeconds = describe(scheduleShape(plan.degrees).kind).splitsBackward()
                                ? seconds(inputs) + seconds(cost.weightGrad)
                                : seconds(inputs + cost.weightGrad);
    if (!timeline.ranks.empty())
      entry.peakMemory = std::llround(timeline.ranks[placement.rank(stage)].peakBytes);
    for (size_t block = 0; block < blocks.size(); ++block)
      if (blocks[block].last >= plan.stages[stage].firstOp &&
          blocks[block].first <= plan.stages[stage].lastOp) {
        if (entry.firstLayer < 0)
          entry.firstLayer = static_cast<int64_t>(block);
        entry.lastLayer = static_cast<int64_t>(block);
      }
    result.forwardSeconds += entry.forwardSeconds;
    result.backwardSeconds += entry.backwardSeconds;
    result.stages.push_back(std::move(entry));
  }
}

/// Each stage's against its own devices, and that of the rank which fills its own most.
void Predictor::addMemory(MemoryDetail detail) {
  std::vector<std::string> groups;
  // All ranks together sum a few numbers. That they have a communicator, from which the others are
  // split, is part of what the context takes.
  for (const CollectiveUse &use : result.collectives)
    if (use.bytes > kStepVectorBytes &&
        std::find(groups.begin(), groups.end(), use.axis) == groups.end())
      groups.push_back(use.axis);
  result.memoryCapacity = classes[0]->getModel().memoryPerRank();
  std::vector<std::vector<schedule::Call>> calls; ///< by rank, for an allocator that caches
  if (schedule && cluster.software.cachingAllocator)
    calls = shortened(*schedule);
  bool fits = true; ///< as far as is known
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    const UniformStages &own = on(static_cast<int64_t>(rank));
    StageCosts::Runs runs = own.stagesOf(static_cast<int64_t>(rank));
    MemoryUse use = own.costs().staticBytes(runs);
    auto peak = std::llround(timeline.ranks[rank].peakBytes);
    BetweenCalls between = own.costs().betweenCalls(runs);
    if (int64_t most = between.most(); use.allocated() + most >= peak)
      (between.initial == most ? use.parameters : use.optimizer) += most;
    use.activations = peak - use.allocated();
    const int64_t communicators =
        int64_t(groups.size()) + own.costs().tiedGroups(own.getStages(), placement,
                                                        static_cast<int64_t>(rank),
                                                        !plan.degrees.groups.empty());
    use.reserved = std::llround(own.getModel().reservedBytes(communicators));
    use.workspace = std::llround(own.getModel().reserve(communicators).workspace);
    double capacity = own.getModel().memoryPerRank();
    if (!cluster.device.hasOwnMemory()) // there, offloaded states take as much elsewhere
      capacity -= own.costs().hostBytes(runs);
    fits = fits && double(use.total()) <= capacity;
    if (!calls.empty() && (fits || detail == MemoryDetail::Exact))
      use.cached = own.cachedBytes(static_cast<int64_t>(rank), calls[rank], use, detail);
    fits = fits && double(use.total()) <= capacity;
    for (int64_t chunk = 0; chunk < placement.chunks(); ++chunk) {
      int64_t stage = placement.stage(int64_t(rank), chunk);
      result.stages[stage].peakMemory = use.total();
      result.stages[stage].memory = use;
      result.stages[stage].memoryCapacity = capacity;
    }
    if (rank == 0 || double(use.total()) * result.memoryCapacity >
                         double(result.memory.total()) * capacity) {
      result.memory = use;
      result.memoryCapacity = capacity;
    }
  }
}

void Predictor::addHosts() {
  if (plan.degrees.offload == Offload::None)
    return;
  std::vector<double> bytes;
  for (int64_t rank = 0; rank < plan.degrees.pp; ++rank) {
    const UniformStages &own = on(rank);
    bytes.push_back(own.costs().hostBytes(own.stagesOf(rank)));
  }
  result.host = fullestHost(cluster, plan.degrees, bytes);
}

void Predictor::simulateStages(const simulate::Costs &stages) {
  schedule::ScheduleShape shape = scheduleShape(plan.degrees);
  if ((schedule = schedule::makeSchedule(shape, trains(planned.problem)))) {
    timeline = simulate::simulate(*schedule, stages, options);
    return;
  }
  timeline.error = schedule::unsupported(shape);
  timeline.stepSeconds = std::numeric_limits<double>::infinity();
}

Prediction Predictor::run(MemoryDetail detail) {
  addFlops(planned, result);
  simulate::Costs stages = stageCosts();
  simulateStages(stages);
  result.stepSeconds = timeline.stepSeconds;
  result.bubbleFraction = timeline.bubbleFraction;
  result.communicationSeconds = timeline.exposedSeconds;
  addStages(stages);
  for (int64_t rank = 0; rank < plan.degrees.pp; ++rank) {
    double update = serial(stages.ranks[rank].update);
    for (int64_t chunk = 0; chunk < placement.chunks(); ++chunk)
      update += stages.stages[placement.stage(rank, chunk)].reductionSeconds;
    result.updateSeconds = std::max(result.updateSeconds, update);
  }
  addCollectives(stages);
  addParts(stages);
  addMemory(detail);
  addHosts();
  return std::move(result);
}

/// Memory is that of `addMemory`: what the simulated costs leave out stays all
/// the time.
simulate::Timeline Predictor::traced() {
  options.trace = true;
  Prediction predicted = run(MemoryDetail::Exact);
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    simulate::RankTimeline &line = timeline.ranks[rank];
    double held = 0, all = double(predicted.stages[rank].peakMemory);
    for (const simulate::MemoryPoint &point : line.memory)
      held = std::max(held, point.bytes);
    double rest = all - held;
    line.peakBytes = all;
    for (simulate::MemoryPoint &point : line.memory)
      point.bytes += rest;
  }
  return std::move(timeline);
}

std::optional<Prediction> predict(const PlannedModel &planned, const Plan &plan,
                                  const Cluster &cluster, const Workspace *workspace,
                                  MemoryDetail detail) {
  Predictor predictor(planned, plan, cluster, workspace);
  if (!predictor.start())
    return std::nullopt;
  return predictor.run(detail);
}

namespace {

/// A plan's whole model.
class WholeModel {
public:
  WholeModel(const Problem &given, const Plan &plan)
      : problem(withSplitSequence(given, plan.degrees.cp)), facts(problem),
        blocks(findBlocks(problem, facts)) {}
  PlannedModel planned() const { return {problem, facts, blocks, problem.numMicrobatches}; }

private:
  const Problem problem; ///< as its planner saw it
  const ProblemFacts facts;
  const std::vector<Block> blocks;
};

} // namespace

simulate::Timeline simulateStep(const Problem &problem, const Plan &plan, const Cluster &cluster,
                                const Workspace *workspace) {
  WholeModel whole(problem, plan);
  Predictor predictor(whole.planned(), plan, cluster, workspace);
  predictor.start();
  return predictor.traced();
}

Prediction predict(const Problem &problem, const Plan &plan, const Cluster &cluster,
                   const Workspace *workspace) {
  return *predict(WholeModel(problem, plan).planned(), plan, cluster, workspace);
}

} // namespace dtc::plan
