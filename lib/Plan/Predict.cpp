// What a plan costs: its execution, cut into stages, on the simulator.
#include "Predict.h"
#include "Recomputation.h"
#include "StageCosts.h"
#include "StageDevices.h"
#include "StepParts.h"

#include "dtc/Plan/Search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc::plan {

using sharding::AxisList;
using sharding::StepKind;

/// "dp", "tp" or "dp,tp": the degrees whose axes form the group.
static std::string degreesOf(const AxisList &axes, const sharding::Mesh &mesh) {
  std::vector<std::string> names;
  for (sharding::AxisId axis : axes)
    if (std::find(names.begin(), names.end(), mesh.axes[axis].degree) == names.end())
      names.push_back(mesh.axes[axis].degree);
  std::string result;
  for (const std::string &name : names)
    result += (result.empty() ? "" : ",") + name;
  return result;
}

/// Contractions forward and backward; attention's gradient counts twice its
/// forward pass, however much of that it computes again.
static double modelFlops(const PlannedModel &planned) {
  double flops = 0;
  for (size_t id = 0; id < planned.problem.ops.size(); ++id) {
    const Op &op = planned.problem.ops[id];
    if (op.backward == BackwardKind::Recompute)
      continue;
    bool isAttention = op.backward && op.kind == OpKind::Attention && op.forward >= 0;
    double times = planned.folding ? planned.folding->timesOf(planned.folding->opHome[id]) : 1;
    flops += times * (isAttention ? 2 * planned.problem.ops[op.forward].flops : op.flops);
  }
  return double(planned.numMicrobatches) * flops;
}

std::vector<AxisList> normSums(const Problem &problem, const ProblemFacts &facts,
                               const Plan &plan) {
  std::vector<AxisList> result;
  for (ValueId value = 0; value < problem.arguments; ++value) {
    if (facts.gradientResult[value] < 0)
      continue;
    AxisList axes;
    for (const AxisList &dim : plan.arguments.at(value).dims)
      axes.insert(axes.end(), dim.begin(), dim.end());
    std::sort(axes.begin(), axes.end());
    if (!axes.empty() && std::find(result.begin(), result.end(), axes) == result.end())
      result.push_back(axes);
  }
  return result;
}

std::vector<AxisList> scalarSums(const Problem &problem, const ProblemFacts &facts,
                                 const Plan &plan) {
  std::vector<AxisList> result = normSums(problem, facts, plan);
  bool counts = std::any_of(problem.values.begin(), problem.values.end(),
                            [](const Value &v) { return v.kind == ValueKind::Target; });
  if (AxisList batch = batchAxes(plan.mesh); counts && !batch.empty())
    result.insert(result.begin(), batch);
  return result;
}

/// The cuts between stages; of a folded model, between blocks, too.
static std::vector<OpId> cutsOf(const Plan &plan, const PlannedModel &planned, OpId end) {
  std::vector<OpId> cuts;
  for (const Stage &stage : plan.stages)
    cuts.push_back(static_cast<OpId>(stage.firstOp));
  cuts.push_back(end);
  for (size_t i = 0; planned.folding && i < planned.blocks.size(); ++i)
    cuts.push_back(planned.blocks[i].first);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

/// One past the last forward op of the whole model.
static OpId endOf(const PlannedModel &planned) {
  if (!planned.folding)
    return planned.facts.lastForward + 1;
  const std::vector<OpId> &ops = planned.folding->ops;
  auto last = std::find(ops.begin(), ops.end(), planned.facts.lastForward);
  return static_cast<OpId>(last - ops.begin()) + 1;
}

namespace {

class Predictor {
public:
  Predictor(const PlannedModel &planned, const Plan &plan, const Cluster &cluster,
            const Workspace *workspace, const StageDevices &devices)
      : planned(planned), problem(planned.problem), plan(plan), facts(planned.facts),
        model(cluster, plan.degrees.devices()), blocks(planned.blocks),
        execution(problem, facts, plan, model, workspace), devices(devices) {
    for (DeviceRange kind : devices.kinds)
      kinds.push_back(std::make_unique<Predictor>(
          planned, plan, clusterOf(cluster, kind, plan.degrees.devices()), workspace,
          StageDevices(model.getCluster(), {})));
  }
  /// False where a folded model doesn't tell what the whole one does.
  bool start();
  Prediction run();
  simulate::Timeline traced();

private:
  void simulateStages(const simulate::Costs &stages);
  void addStages(const simulate::Costs &stages);
  void addMemory();
  int64_t bufferBytes() const;
  void addCollectives(const simulate::Costs &stages);
  void addParts(const simulate::Costs &stages);
  void addMicrobatchCollectives(int64_t rank, std::vector<CollectiveUse> &uses) const;
  void addStorageCollectives(int64_t rank, std::vector<CollectiveUse> &uses) const;
  void addScalarCollectives(std::vector<CollectiveUse> &uses) const;
  void addTransfers(int64_t rank, const simulate::Costs &stages,
                    std::vector<CollectiveUse> &uses) const;
  int64_t dataBytes(int64_t rank) const;
  void add(std::vector<CollectiveUse> &uses, const StageCosts::Exchange &exchange,
           double times) const;

  /// What a rank's stages cost on its own devices.
  const Predictor &on(int64_t rank) const {
    return kinds.empty() ? *this : *kinds[devices.kindOf[rank]];
  }
  simulate::Costs stageCosts() const;
  int stageCount() const { return static_cast<int>(cuts.size()) - 1; }
  int64_t rankOf(int unit) const;

  const PlannedModel planned;
  const Problem &problem;
  const Plan &plan;
  const ProblemFacts &facts;
  CostModel model;
  const std::vector<Block> &blocks; ///< of the whole model
  Execution execution;
  std::unique_ptr<Profile> profile;
  std::optional<StageCosts> costs;
  std::vector<int> cuts; ///< units with which stages begin, and how many there are
  simulate::Options options;
  std::optional<pipeline::Schedule> schedule;
  simulate::Timeline timeline;
  Prediction result;
  StageDevices devices;
  std::vector<std::unique_ptr<Predictor>> kinds; ///< by type of device, where there are several
};

} // namespace

bool Predictor::start() {
  std::vector<OpId> at = cutsOf(plan, planned, endOf(planned));
  if (const Folding *folding = planned.folding) {
    auto kinds = foldRecomputation(*folding, plan.recompute);
    auto folded = foldCuts(*folding, blocks, at);
    if (!kinds || !folded)
      return false;
    addRecomputation(execution, problem, folding->blocks, *kinds);
    profile = Profile::ofFolded(problem, facts, execution, plan.mesh, *folded, std::move(at));
  } else {
    addRecomputation(execution, problem, blocks, plan.recompute);
    profile = std::make_unique<Profile>(problem, facts, execution, plan.mesh, std::move(at));
  }
  if (!profile)
    return false;
  for (const Stage &stage : plan.stages)
    cuts.push_back(profile->unitOf(static_cast<OpId>(stage.firstOp)));
  cuts.push_back(profile->units());
  costs.emplace(problem, model, plan.degrees, plan.mesh, *profile,
                findWeights(problem, facts, plan, execution, *profile,
                            model.getCluster().software),
                blocks, scalarSums(problem, facts, plan));
  return std::all_of(kinds.begin(), kinds.end(), [](auto &kind) { return kind->start(); });
}

simulate::Costs Predictor::stageCosts() const {
  simulate::Costs stages = costs->costs(cuts);
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    simulate::Costs theirs = kinds[kind]->costs->costs(cuts);
    for (size_t rank = 0; rank < devices.kindOf.size(); ++rank)
      if (devices.kindOf[rank] == static_cast<int>(kind))
        takeRank(stages, theirs, rank);
  }
  return stages;
}

/// That which has a unit.
int64_t Predictor::rankOf(int unit) const {
  auto after = std::upper_bound(cuts.begin(), cuts.end(), unit);
  return (after - cuts.begin() - 1) % plan.degrees.pp;
}

//===-- collectives -------------------------------------------------------===//

static void merge(std::vector<CollectiveUse> &uses, const CollectiveUse &use) {
  for (CollectiveUse &known : uses)
    if (known.kind == use.kind && known.send == use.send && known.axis == use.axis &&
        known.bytes == use.bytes) {
      known.count += use.count;
      known.seconds += use.seconds;
      return;
    }
  uses.push_back(use);
}

void Predictor::add(std::vector<CollectiveUse> &uses, const StageCosts::Exchange &exchange,
                    double times) const {
  if (exchange.calls <= 0)
    return;
  merge(uses, {exchange.kind, degreesOf(exchange.axes, plan.mesh),
               std::llround(exchange.calls * times),
               std::llround(std::ceil(exchange.bytes / exchange.calls)),
               exchange.seconds * times});
}

void Predictor::addMicrobatchCollectives(int64_t rank, std::vector<CollectiveUse> &uses) const {
  for (const ExecutionStep &step : on(rank).execution.steps) {
    if (!step.collective || *step.collective == StepKind::Slice || plan.mesh.size(step.axes) <= 1)
      continue;
    std::vector<int> units = profile->unitsOf(step.position);
    int64_t times = planned.numMicrobatches *
                    std::count_if(units.begin(), units.end(),
                                  [&](int unit) { return rankOf(unit) == rank; });
    if (times > 0)
      merge(uses, {*step.collective, degreesOf(step.axes, plan.mesh), times, step.bytes,
                   double(times) * step.seconds});
  }
}

void Predictor::addStorageCollectives(int64_t rank, std::vector<CollectiveUse> &uses) const {
  auto times = double(planned.numMicrobatches);
  const StageCosts &own = *on(rank).costs;
  for (auto [a, b] : own.runsOf(cuts, rank))
    for (const WeightClass &weights : own.getClasses()) {
      add(uses, own.gather(weights, a, b), 2 * times);
      add(uses, own.scatter(weights, a, b), times);
      for (const StageCosts::Exchange &sum : own.reductions(weights, a, b))
        add(uses, sum, 1);
      add(uses, own.regather(weights, a, b), 1);
    }
}

void Predictor::addScalarCollectives(std::vector<CollectiveUse> &uses) const {
  constexpr int64_t bytes = 8;
  for (const AxisList &axes : scalarSums(problem, facts, plan))
    if (plan.mesh.size(axes) > 1)
      merge(uses, {StepKind::AllReduce, degreesOf(axes, plan.mesh), 1, bytes,
                   model.collectiveSeconds(StepKind::AllReduce, axes, bytes, plan.mesh)});
}

/// What the rank sends to the stages beside its own.
void Predictor::addTransfers(int64_t rank, const simulate::Costs &stages,
                             std::vector<CollectiveUse> &uses) const {
  int64_t times = planned.numMicrobatches;
  auto send = [&](const simulate::Boundary &boundary, double bytes) {
    if (bytes <= 0)
      return;
    CollectiveUse use{StepKind::Permute, "pp", times, std::llround(bytes * costs->sentShare()),
                      double(times) * (boundary.latency + bytes / boundary.bandwidth)};
    use.send = true;
    merge(uses, use);
  };
  for (int64_t stage = rank; stage < stageCount(); stage += plan.degrees.pp) {
    if (stage + 1 < stageCount())
      send(stages.boundaries[stage], stages.boundaries[stage].forwardBytes);
    if (stage > 0)
      send(stages.boundaries[stage - 1], stages.boundaries[stage - 1].backwardBytes);
  }
}

/// Of the rank that communicates longest.
void Predictor::addCollectives(const simulate::Costs &stages) {
  double longest = -1;
  for (int64_t rank = 0; rank < plan.degrees.pp; ++rank) {
    std::vector<CollectiveUse> uses;
    addMicrobatchCollectives(rank, uses);
    addStorageCollectives(rank, uses);
    addScalarCollectives(uses);
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
    addMicrobatchCollectives(rank, inside);
    addStorageCollectives(rank, data);
    addScalarCollectives(data);
    for (const CollectiveUse &use : inside)
      step.inside[use.axis] += use.seconds;
    for (const CollectiveUse &use : data)
      step.data[use.axis] += use.seconds;
    step.tied += costs->tiedSeconds(costs->tiedBytes(cuts, rank));
  }
  result.parts = stepParts(step);
}

//===-- time and memory ---------------------------------------------------===//

/// With communication that nothing hides.
static double alone(const simulate::Work &work) {
  return std::max(work.compute, work.overlapped) + work.blocking;
}

static double serial(const simulate::Work &work) {
  return work.compute + work.blocking + work.overlapped;
}

void Predictor::addStages(const simulate::Costs &stages) {
  for (int stage = 0; stage < stageCount(); ++stage) {
    const simulate::StageCost &cost = stages.stages[stage];
    StagePrediction entry;
    entry.devices = plan.stages[stage].devices;
    entry.parameters = on(stage % plan.degrees.pp)
                           .costs->parameterElements(cuts[stage], cuts[stage + 1]);
    entry.forwardSeconds = alone(cost.forward);
    entry.backwardSeconds = alone(cost.recompute + cost.inputGrad + cost.weightGrad);
    if (!timeline.ranks.empty())
      entry.peakMemory = std::llround(timeline.ranks[stage % plan.degrees.pp].peakBytes);
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

/// Inputs, targets and scalars of a whole step that the rank's stages read, and
/// the outputs that they make.
int64_t Predictor::dataBytes(int64_t rank) const {
  int64_t total = 0;
  for (ValueId value = 0; value < problem.arguments; ++value) {
    const Value &argument = problem.values[value];
    if (argument.kind == ValueKind::Parameter || argument.kind == ValueKind::Accumulator ||
        argument.kind == ValueKind::Buffer)
      continue;
    int64_t count = std::count_if(
        profile->readers(value).begin(), profile->readers(value).end(),
        [&](const std::vector<int> &readers) {
          return plan.degrees.pp == 1 ||
                 std::any_of(readers.begin(), readers.end(),
                             [&](int unit) { return rankOf(unit) == rank; });
        });
    bool perMicrobatch = argument.kind == ValueKind::Input || argument.kind == ValueKind::Target;
    total += count * placedBytes(localBytes(argument, plan.arguments.at(value), plan.mesh)) *
             (perMicrobatch ? planned.numMicrobatches : 1);
  }
  if (rank == (stageCount() - 1) % plan.degrees.pp)
    total += execution.outputBytes * planned.numMicrobatches;
  return total;
}

int64_t Predictor::bufferBytes() const {
  int64_t total = 0;
  for (ValueId value = 0; value < problem.arguments; ++value)
    if (problem.values[value].kind == ValueKind::Buffer)
      total += static_cast<int64_t>(profile->readers(value).size()) *
               placedBytes(localBytes(problem.values[value], plan.arguments.at(value), plan.mesh));
  return total;
}

/// Each stage's against its own devices; of the rank that has least to spare.
void Predictor::addMemory() {
  std::vector<std::string> groups;
  for (const CollectiveUse &use : result.collectives)
    if (std::find(groups.begin(), groups.end(), use.axis) == groups.end())
      groups.push_back(use.axis);
  auto communicators = static_cast<int64_t>(groups.size());
  result.memoryCapacity = model.memoryPerRank();
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    const Predictor &own = on(static_cast<int64_t>(rank));
    MemoryUse use = own.costs->staticBytes(costs->runsOf(cuts, static_cast<int64_t>(rank)));
    double resident = double(use.parameters + use.gradients + use.optimizer);
    use.activations = std::llround(timeline.ranks[rank].peakBytes - resident);
    use.parameters += own.bufferBytes();
    use.data = own.dataBytes(static_cast<int64_t>(rank));
    use.reserved = std::llround(own.model.reservedBytes(communicators));
    double capacity = own.model.memoryPerRank();
    for (size_t stage = rank; stage < result.stages.size(); stage += plan.degrees.pp) {
      result.stages[stage].peakMemory = use.total();
      result.stages[stage].memory = use;
      result.stages[stage].memoryCapacity = capacity;
    }
    if (rank == 0 || capacity - double(use.total()) <
                         result.memoryCapacity - double(result.memory.total())) {
      result.memory = use;
      result.memoryCapacity = capacity;
    }
  }
}

void Predictor::simulateStages(const simulate::Costs &stages) {
  pipeline::ScheduleShape shape = scheduleShape(plan.degrees);
  if ((schedule = pipeline::makeSchedule(shape))) {
    timeline = simulate::simulate(*schedule, stages, options);
    return;
  }
  timeline.error = pipeline::unsupported(shape);
  timeline.stepSeconds = std::numeric_limits<double>::infinity();
}

Prediction Predictor::run() {
  result.modelFlops = modelFlops(planned);
  simulate::Costs stages = stageCosts();
  simulateStages(stages);
  result.stepSeconds = timeline.stepSeconds;
  result.bubbleFraction = timeline.bubbleFraction;
  result.communicationSeconds = timeline.exposedSeconds;
  addStages(stages);
  for (int64_t rank = 0; rank < plan.degrees.pp; ++rank) {
    double update = serial(stages.ranks[rank].update);
    for (size_t stage = rank; stage < stages.stages.size(); stage += plan.degrees.pp)
      update += stages.stages[stage].reductionSeconds;
    result.updateSeconds = std::max(result.updateSeconds, update);
  }
  addCollectives(stages);
  addParts(stages);
  addMemory();
  return std::move(result);
}

/// Memory is that of `addMemory`: what the simulated costs leave out stays all
/// the time.
simulate::Timeline Predictor::traced() {
  options.trace = true;
  Prediction predicted = run();
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    simulate::RankTimeline &line = timeline.ranks[rank];
    double rest = double(predicted.stages[rank].peakMemory) - line.peakBytes;
    line.peakBytes += rest;
    for (simulate::MemoryPoint &point : line.memory)
      point.bytes += rest;
  }
  return std::move(timeline);
}

/// By pipeline rank, from its first device to its last.
static StageDevices devicesOf(const Plan &plan, const Cluster &cluster) {
  std::vector<DeviceRange> ranges;
  for (int64_t rank = 0; rank < plan.degrees.pp; ++rank) {
    const std::vector<int64_t> &devices = plan.stages[rank].devices;
    auto [first, last] = std::minmax_element(devices.begin(), devices.end());
    ranges.push_back({*first, *last - *first + 1});
  }
  return StageDevices(cluster, ranges);
}

std::optional<Prediction> predict(const PlannedModel &planned, const Plan &plan,
                                  const Cluster &cluster, const Workspace *workspace) {
  Predictor predictor(planned, plan, cluster, workspace, devicesOf(plan, cluster));
  if (!predictor.start())
    return std::nullopt;
  return predictor.run();
}

namespace {

/// A plan's whole model.
class WholeModel {
public:
  WholeModel(const Problem &given, const Plan &plan)
      : problem(plan.degrees.cp > 1 ? withSplitQueries(given) : given), facts(problem),
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
  Predictor predictor(whole.planned(), plan, cluster, workspace, devicesOf(plan, cluster));
  predictor.start();
  return predictor.traced();
}

Prediction predict(const Problem &problem, const Plan &plan, const Cluster &cluster,
                   const Workspace *workspace) {
  return *predict(WholeModel(problem, plan).planned(), plan, cluster, workspace);
}

} // namespace dtc::plan
