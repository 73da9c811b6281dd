#include "Realize.h"

#include <algorithm>

namespace dtc::plan {

/// Whether the plan splits normalizations along the sequence over tp.
static bool usesSequenceParallel(const Problem &problem, const ProblemFacts &facts,
                                 const Plan &plan) {
  sharding::AxisList tp = plan.mesh.ofDegree("tp");
  for (size_t id = 0; id < problem.ops.size(); ++id)
    if (problem.ops[id].kind == OpKind::Normalization)
      for (sharding::FactorId factor : facts.sequenceFactors[id])
        for (sharding::AxisId axis : plan.ops[id].factors[factor])
          if (std::find(tp.begin(), tp.end(), axis) != tp.end())
            return true;
  return false;
}

static void place(const Estimate &estimate, Plan &plan) {
  const Degrees &degrees = plan.degrees;
  int64_t size = plan.mesh.devices();
  plan.stages.clear();
  for (size_t i = 0; i + 1 < estimate.cuts.size(); ++i) {
    Stage stage{estimate.cuts[i], estimate.cuts[i + 1] - 1, {}};
    int64_t first = static_cast<int64_t>(i) % degrees.pp * size;
    for (int64_t device = first; device < first + size; ++device)
      stage.devices.push_back(device);
    plan.stages.push_back(std::move(stage));
  }
}

static void store(Plan &plan) {
  sharding::AxisList axes = storageAxes(plan.degrees, plan.mesh);
  for (ParameterStorage &storage : plan.storage) {
    sharding::AxisList own;
    for (sharding::AxisId axis : axes)
      if (!storage.use.splits(axis))
        own.push_back(axis);
    storage.stateAxes = plan.degrees.zero >= 1 ? own : sharding::AxisList{};
    storage.gradientAxes = plan.degrees.zero >= 2 ? own : sharding::AxisList{};
    storage.storageAxes = plan.degrees.zero >= 3 ? own : sharding::AxisList{};
  }
}

Result<Realized> realize(const Problem &problem, const Cluster &cluster, ShardLibrary &library,
                         const Estimate &estimate, const Workspace *workspace) {
  const Degrees &degrees = estimate.degrees;
  Realized result;
  int64_t samples = degrees.microBatch * degrees.dataRanks();
  auto solution = library.solve(
      samples, degrees,
      {estimate.variant.sequenceParallel, estimate.variant.secondsPerByte, 0,
       weighedMicrobatches(problem, degrees, degrees.devices())});
  if (!solution)
    return solution.error();
  const ShardLibrary::Batch &solved = library.batchOf(samples, degrees.cp > 1);
  result.problem = library.batchOf(samples, false).problem;
  result.problem.numMicrobatches = degrees.numMicrobatches;
  result.plan = std::move(solution->plan);
  result.gap = solution->gap;
  result.plan.degrees.sp = usesSequenceParallel(solved.problem, *solved.facts, result.plan);
  result.plan.recompute = estimate.recompute;
  place(estimate, result.plan);
  store(result.plan);
  result.predicted = predict(result.problem, result.plan, cluster, workspace);
  return result;
}

} // namespace dtc::plan
