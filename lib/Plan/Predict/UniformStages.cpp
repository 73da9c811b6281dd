#include "UniformStages.h"

#include "PlacedPrograms.h"

#include "dtc/Plan/Plan/Storage.h"
#include "dtc/Plan/Plan/Trains.h"
#include "dtc/Plan/Predict/JoinedKernels.h"
#include "dtc/Plan/Predict/Recomputation.h"
#include "dtc/Plan/Solve/Distinct.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <ranges>

namespace dtc::plan {

using sharding::AxisList;
using sharding::StepKind;

std::vector<AxisList> scalarSums(const Problem &problem, const sharding::Mesh &mesh) {
  bool counts = std::any_of(problem.values.begin(), problem.values.end(),
                            [](const Value &v) { return v.kind == ValueKind::Target; });
  std::vector<AxisList> sums;
  if (AxisList batch = batchAxes(mesh); counts && !batch.empty())
    sums.push_back(batch);
  AxisList all;
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (mesh.axes[axis].size > 1)
      all.push_back(static_cast<sharding::AxisId>(axis));
  if (trains(problem) && !all.empty())
    sums.push_back(all);
  return sums;
}

/// The cuts between stages, and between blocks where these are told apart: folded, or in
/// what they gather.
static std::vector<OpId> cutsOf(const Plan &plan, const PlannedModel &planned, OpId end,
                                bool betweenBlocks) {
  std::vector<OpId> cuts;
  for (const Stage &stage : plan.stages)
    cuts.push_back(static_cast<OpId>(stage.firstOp));
  cuts.push_back(end);
  for (size_t i = 0; betweenBlocks && i < planned.blocks.size(); ++i)
    cuts.push_back(planned.blocks[i].first);
  keepDistinct(cuts);
  return cuts;
}

/// A block as the stages divide it.
static std::vector<Block> partsOf(Block block, const Plan &plan) {
  std::vector<Block> result;
  for (const Stage &stage : plan.stages)
    if (auto first = static_cast<OpId>(stage.firstOp); first > block.first && first <= block.last) {
      result.push_back({block.first, first - 1});
      block.first = first;
    }
  result.push_back(block);
  return result;
}

/// A stage that begins within a block exchanges its part of the block's parameters and gradients.
/// So does one that begins before all blocks, or after them.
static std::vector<Block> blocksOfStages(const Plan &plan, const std::vector<Block> &blocks) {
  if (blocks.empty())
    return {};
  std::vector<Block> result;
  OpId begin = blocks.front().first, behind = blocks.back().last + 1;
  for (const Stage &stage : plan.stages | std::views::reverse)
    if (auto first = static_cast<OpId>(stage.firstOp); first > 0 && first < begin) {
      result.insert(result.begin(), {first, begin - 1});
      begin = first;
    }
  for (const Block &block : blocks)
    std::ranges::copy(partsOf(block, plan), std::back_inserter(result));
  for (const Stage &stage : plan.stages)
    if (auto first = static_cast<OpId>(stage.firstOp); first > behind) {
      result.push_back({behind, first - 1});
      behind = first;
    }
  return result;
}

/// One past the last forward op of the whole model.
static OpId endOf(const PlannedModel &planned) {
  if (!planned.folding)
    return planned.facts.lastForward + 1;
  const std::vector<OpId> &ops = planned.folding->ops;
  auto last = std::find(ops.begin(), ops.end(), planned.facts.lastForward);
  return static_cast<OpId>(last - ops.begin()) + 1;
}

UniformStages::UniformStages(const PlannedModel &planned, const Plan &plan, const Cluster &cluster,
                     int64_t devices, const Workspace *workspace)
    : planned(planned), problem(planned.problem), plan(plan), facts(planned.facts),
      placement(placementOf(plan.degrees)), model(cluster, devices),
      execution(problem, facts, plan, model, workspace) {}

/// Of a plan that stores by two levels.
static StorageLevels levelsOf(const Plan &plan, const Problem &problem) {
  if (plan.degrees.zeroBlocks == 0)
    return {};
  StorageLevels levels(problem.arguments, 0);
  std::map<std::string, ValueId> parameters = parametersByName(problem);
  for (const ParameterStorage &storage : plan.storage)
    if (auto value = parameters.find(storage.parameter); value != parameters.end())
      levels[value->second] = zeroLevel(storage);
  return levels;
}

/// In dtc's programs a stage computes its part of a block again, for its own backward pass.
void UniformStages::recompute() {
  const Software &software = model.getCluster().software;
  std::vector<Block> blocks;
  std::vector<BlockRecompute> kinds;
  for (const BlockRecompute &entry : plan.recompute) {
    const Block &block = planned.blocks[entry.block];
    for (const Block &part : hasPlaces(software) ? partsOf(block, plan) : std::vector{block}) {
      kinds.push_back({static_cast<int64_t>(blocks.size()), entry.kind});
      blocks.push_back(part);
    }
  }
  addRecomputation(execution, problem, blocks, kinds, software);
}

bool UniformStages::start() {
  bool allocates = model.getCluster().software.cachingAllocator;
  bool exchanges = plan.degrees.zero > 1 && hasPlaces(model.getCluster().software);
  const OpId end = endOf(planned);
  std::vector<OpId> at =
      cutsOf(plan, planned, end, planned.folding != nullptr || allocates || exchanges);
  for (size_t i = 0; exchanges && i < planned.blocks.size(); ++i)
    at.push_back(std::min(planned.blocks[i].last + 1, end));
  keepDistinct(at);
  FoldedCuts allocated;
  if (const Folding *folding = planned.folding) {
    if (plan.degrees.zeroBlocks > 0)
      return false;
    auto kinds = foldRecomputation(*folding, plan.recompute);
    auto folded = foldCuts(*folding, planned.blocks, at);
    if (!kinds || !folded)
      return false;
    addRecomputation(execution, problem, folding->blocks, *kinds, model.getCluster().software);
    joinKernels(execution, problem, model.getCluster().software);
    allocated = *folded;
    unitCosts = UnitCosts::ofFolded(problem, facts, execution, plan.mesh, *folded, std::move(at),
                                    folding->blocks);
  } else {
    recompute();
    joinKernels(execution, problem, model.getCluster().software);
    allocated.cuts = at;
    unitCosts =
        std::make_unique<UnitCosts>(problem, facts, execution, plan.mesh, std::move(at),
                                    blocksOfStages(plan, planned.blocks), levelsOf(plan, problem));
  }
  if (allocates)
    allocations.emplace(problem, execution, allocated);
  if (!unitCosts || (allocations && !allocations->inStep()))
    return false;
  std::vector<int> cuts;
  for (const Stage &stage : plan.stages)
    cuts.push_back(unitCosts->unitOf(static_cast<OpId>(stage.firstOp)));
  cuts.push_back(unitCosts->units());
  stages = runsBetween(cuts);
  Weights weights = findWeights(problem, facts, plan, execution, *unitCosts,
                                model.getCluster().software);
  if (plan.degrees.zeroBlocks > 0)
    weights.higherBlocks = blocksOfLevel(plan.degrees.zero, problem, facts, planned.blocks,
                                         plan.storage);
  stageCosts.emplace(model, plan.degrees, plan.mesh, *unitCosts, std::move(weights), planned.blocks,
                     scalarSums(problem, plan.mesh));
  return true;
}

//===-- communication -----------------------------------------------------===//

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

void merge(std::vector<CollectiveUse> &uses, const CollectiveUse &use) {
  for (CollectiveUse &known : uses)
    if (known.kind == use.kind && known.send == use.send && known.axis == use.axis &&
        known.bytes == use.bytes) {
      known.count += use.count;
      known.seconds += use.seconds;
      return;
    }
  uses.push_back(use);
}

void UniformStages::add(std::vector<CollectiveUse> &uses, const StageCosts::Exchange &exchange,
                    double times) const {
  if (exchange.calls <= 0)
    return;
  merge(uses, {exchange.kind, degreesOf(*exchange.axes, plan.mesh),
               std::llround(exchange.calls * times),
               std::llround(std::ceil(exchange.bytes / exchange.calls)),
               exchange.seconds * times});
}

void UniformStages::addMicrobatchCollectives(int64_t rank, std::vector<CollectiveUse> &uses) const {
  for (const ExecutionStep &step : execution.steps) {
    if (!step.collective || *step.collective == StepKind::Slice || plan.mesh.size(step.axes) <= 1)
      continue;
    std::vector<int> units = unitCosts->unitsOf(step.position);
    int64_t times =
        planned.numMicrobatches * std::count_if(units.begin(), units.end(), [&](int unit) {
          return rankOf(unit, stages, placement) == rank;
        });
    if (times > 0)
      merge(uses, {*step.collective, degreesOf(step.axes, plan.mesh), times, step.bytes,
                   double(times) * step.seconds});
  }
}

void UniformStages::addStorageCollectives(int64_t rank, std::vector<CollectiveUse> &uses) const {
  auto times = double(planned.numMicrobatches);
  for (const StageRun &run : stagesOf(rank))
    for (const WeightClass &weights : stageCosts->getClasses()) {
      for (bool backward : {false, true})
        add(uses, stageCosts->gather(weights, run, backward), times);
      add(uses, stageCosts->scatter(weights, run), times);
      for (const StageCosts::Exchange &sum : stageCosts->reductions(weights, run))
        add(uses, sum, 1);
      add(uses, stageCosts->regather(weights, run), 1);
    }
}

void UniformStages::addScalarCollectives(std::vector<CollectiveUse> &uses) const {
  for (const AxisList &axes : scalarSums(problem, plan.mesh))
    if (plan.mesh.size(axes) > 1)
      merge(uses,
            {StepKind::AllReduce, degreesOf(axes, plan.mesh), 1, kStepVectorBytes,
             model.collectiveSeconds(StepKind::AllReduce, axes, kStepVectorBytes, plan.mesh)});
}

//===-- memory ------------------------------------------------------------===//

/// Where it runs out of memory, what it would hold of a larger device.
int64_t UniformStages::cachedBytes(int64_t rank, const std::vector<schedule::Call> &calls,
                                   const MemoryUse &use, MemoryDetail detail) const {
  if (!allocations)
    return 0;
  StageCosts::Runs runs = stagesOf(rank);
  RankRequests requests = stageCosts->requests(runs);
  requests.sumShare = 1 / allocations->gradientShare();
  bool splits = std::any_of(calls.begin(), calls.end(), [](const schedule::Call &call) {
    return call.pass == schedule::Pass::WeightGrad;
  });
  for (const StageRun &run : runs)
    requests.stages.push_back(allocations->stage(run.begin, run.end, splits));
  auto workspace = std::llround(model.reserve(0).workspace);
  auto capacity = static_cast<int64_t>(model.memoryPerRank()) - (use.reserved - workspace);
  if (detail == MemoryDetail::WhetherItFits)
    requests.held = 0;
  std::optional<int64_t> peak = peakReserved(requests, calls, capacity);
  if (!peak)
    peak = detail == MemoryDetail::Exact
               ? peakReserved(requests, calls, std::numeric_limits<int64_t>::max())
               : capacity + 1;
  return std::max<int64_t>(0, *peak - use.allocated() - workspace);
}

} // namespace dtc::plan
