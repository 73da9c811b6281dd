#include "dtc/Plan/Search/CompletePlan.h"

#include "dtc/Plan/Plan/Storage.h"
#include "dtc/Plan/Predict/Predict.h"
#include "dtc/Plan/Predict/StageDevices.h"

#include <algorithm>
#include <utility>

namespace dtc::plan {

static void place(const Estimate &estimate, Plan &plan) {
  std::vector<DeviceRange> ranges = neighbouringDevices(plan.degrees);
  const schedule::Placement placement = placementOf(plan.degrees);
  plan.stages.clear();
  for (size_t i = 0; i + 1 < estimate.cuts.size(); ++i) {
    Stage stage{estimate.cuts[i], estimate.cuts[i + 1] - 1, {}};
    const int64_t rank = placement.rank(static_cast<int64_t>(i));
    if (plan.degrees.groups.empty()) {
      stage.devices = i < ranges.size() ? devicesOf(plan.degrees, plan.mesh, rank)
                                        : plan.stages[static_cast<size_t>(rank)].devices;
      plan.stages.push_back(std::move(stage));
      continue;
    }
    auto [first, count] = ranges[static_cast<size_t>(rank)];
    for (int64_t device = first; device < first + count; ++device)
      stage.devices.push_back(device);
    plan.stages.push_back(std::move(stage));
  }
}

static void store(const Degrees &degrees, ModelSharding &sharding) {
  sharding::AxisList axes = storageAxes(degrees, sharding.mesh);
  for (ParameterStorage &storage : sharding.storage)
    setZeroLevel(storage, degrees.zero, axes);
}

static void store(Plan &plan) {
  store(inGroup(plan.degrees, 0), plan);
  for (size_t i = 0; i < plan.others.size(); ++i)
    store(inGroup(plan.degrees, i + 1), plan.others[i]);
}

void setModelSharding(Plan &plan, size_t group, Plan solved) {
  (group == 0 ? plan : plan.others[group - 1]) = static_cast<ModelSharding &&>(solved);
}

void keepRest(const Plan &plan, Plan &other) {
  other.degrees = plan.degrees;
  other.stages = plan.stages;
  other.recompute = plan.recompute;
  store(other);
  if (plan.degrees.zeroBlocks == 0)
    return;
  std::map<std::string, int> levels;
  for (const ParameterStorage &storage : plan.storage)
    levels[storage.parameter] = zeroLevel(storage);
  for (ParameterStorage &storage : other.storage)
    setZeroLevel(storage, levels[storage.parameter], storageAxes(plan.degrees, other.mesh));
}

/// The rest of a plan for this model, and its prediction; false as for `predict`.
static bool finish(const PlannedModel &planned, const Estimate &estimate, const Cluster &cluster,
                   const Workspace *workspace, MemoryDetail detail, CompletePlan &result) {
  result.folded = planned.folding != nullptr;
  result.plan.recompute = estimate.recompute;
  place(estimate, result.plan);
  store(result.plan);
  auto predicted = predict(planned, result.plan, cluster, workspace, detail);
  if (predicted)
    result.predicted = std::move(*predicted);
  return predicted.has_value();
}

/// Each group of stages as if all were like them; then the plan of all.
static Result<CompletePlan> completeGroups(const Problem &problem, const Cluster &cluster,
                                           ShardLibrary &library, const Estimate &estimate,
                                           MemoryDetail detail) {
  std::vector<DeviceRange> ranges = neighbouringDevices(estimate.degrees);
  const ShardLibrary::Batch &whole =
      library.batchOf(estimate.degrees.microBatch * estimate.degrees.dataRanks(),
                      estimate.degrees.cp);
  if (!whole.error.empty())
    return Error{whole.error, ErrorCategory::NoFit};
  CompletePlan result;
  int64_t rank = 0;
  for (size_t group = 0; group < groupCount(estimate.degrees); ++group) {
    Degrees own = inGroup(estimate.degrees, group);
    ShardLibrary &on = library.on(ranges[rank]);
    SolverOptions options{estimate.variant.sequenceParallel, estimate.variant.secondsPerByte, 0,
                          weighedMicrobatches(problem, own, estimate.degrees.devices())};
    auto solution = on.solveWhole(own, options);
    if (!solution)
      return solution.error();
    result.gap = std::max(result.gap, solution->gap);
    Degrees &all = result.plan.degrees;
    if (group == 0) {
      result.solver = options;
      result.plan = std::move(solution->plan);
      all.groups = estimate.degrees.groups;
      all.groups[0].sp = all.sp;
      all.zeroGroup = estimate.degrees.zeroGroup; // perhaps of other groups alone
    } else {
      all.groups[group].sp = solution->plan.degrees.sp;
      result.plan.others.push_back(std::move(solution->plan));
    }
    rank += all.groups[group].pp;
  }
  finish({whole.problem, *whole.facts, library.getBlocks(), estimate.degrees.numMicrobatches},
         estimate, cluster, library.getWorkspace(), detail, result);
  return result;
}

/// The shardings of an estimate on all axes; `folded`: those of the folded model.
static Result<Solution> solved(ShardLibrary &library, const Estimate &estimate,
                               SolverOptions &options, bool &folded) {
  const Degrees &degrees = estimate.degrees;
  int64_t samples = degrees.microBatch * degrees.dataRanks();
  auto solution = library.solveFolded(samples, degrees, options);
  folded = solution.has_value();
  if (solution)
    return std::move(*solution);
  const ShardLibrary::Batch &whole = library.batchOf(samples, degrees.cp);
  if (!whole.error.empty())
    return Error{whole.error, ErrorCategory::NoFit};
  return library.solveUnfolded(whole, degrees, options);
}

Result<CompletePlan> completePlan(const Problem &problem, const Cluster &cluster,
                                  ShardLibrary &library, const Estimate &estimate,
                                  MemoryDetail detail) {
  if (!estimate.degrees.groups.empty())
    return completeGroups(problem, cluster, library, estimate, detail);
  const Degrees &degrees = estimate.degrees;
  int64_t samples = degrees.microBatch * degrees.dataRanks();
  bool folded = false;
  CompletePlan result;
  result.solver = {estimate.variant.sequenceParallel, estimate.variant.secondsPerByte, 0,
                   weighedMicrobatches(problem, degrees, degrees.devices())};
  auto solution = solved(library, estimate, result.solver, folded);
  if (!solution)
    return solution.error();
  const std::vector<Block> &blocks = library.getBlocks();
  result.gap = solution->gap;
  result.plan = solution->plan;
  if (folded) {
    const ShardLibrary::Batch &batch = library.foldedBatchOf(samples, degrees.cp);
    PlannedModel planned{batch.problem, *batch.facts, blocks, degrees.numMicrobatches,
                         library.getFolding()};
    if (finish(planned, estimate, cluster, library.getFoldedWorkspace(), detail, result))
      return result;
  }
  const ShardLibrary::Batch &whole = library.batchOf(samples, degrees.cp);
  if (!whole.error.empty())
    return Error{whole.error, ErrorCategory::NoFit};
  if (folded)
    result.plan = unfold(*library.getFolding(), whole.problem, std::move(solution->plan));
  finish({whole.problem, *whole.facts, blocks, degrees.numMicrobatches}, estimate, cluster,
         library.getWorkspace(), detail, result);
  return result;
}

Result<Problem> unfoldPlan(ShardLibrary &library, CompletePlan &completed) {
  const Degrees &degrees = completed.plan.degrees;
  Result<Problem> problem = library.problemOf(degrees.microBatch * degrees.dataRanks());
  if (!problem)
    return problem;
  problem->numMicrobatches = degrees.numMicrobatches;
  if (std::exchange(completed.folded, false)) {
    std::vector<Stage> stages = std::move(completed.plan.stages);
    std::vector<BlockRecompute> recompute = std::move(completed.plan.recompute);
    completed.plan = unfold(*library.getFolding(), *problem, std::move(completed.plan));
    completed.plan.stages = std::move(stages);
    completed.plan.recompute = std::move(recompute);
  }
  return problem;
}

} // namespace dtc::plan
