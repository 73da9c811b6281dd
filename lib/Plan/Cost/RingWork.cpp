// What attention does whose keys go round.
#include "dtc/Plan/Cost/OpWork.h"

#include "dtc/Plan/Plan/SequenceOrder.h"

#include <algorithm>

namespace dtc::plan {

using sharding::FactorId;
using sharding::Mesh;
using sharding::OpSharding;
using sharding::Ring;
using sharding::StepKind;
using sharding::TensorFactors;

/// Merging two results takes the weights of either and their sum.
static constexpr int64_t kMergeKernels = 2;

/// A chunk of queries with a chunk of another rank's keys, of which all is seen.
static LocalWork chunkOf(LocalWork work) {
  work.causal = false;
  work.flops /= 4;
  work.bytes /= 2;
  work.m /= 2;
  work.n /= 2;
  work.passedBytes /= 2;
  return work;
}

/// Of parts in zig-zag a step computes two pairs of chunks, else all of another rank's keys.
static double laterStepSeconds(const CostModel &model, LocalWork work, bool zigzag) {
  work.causal = false;
  return zigzag ? 2 * model.opSeconds(chunkOf(work)) : model.opSeconds(work);
}

bool OpWork::goesRound(OpId id, const OpSharding &choice) const {
  return sharding::ringOf(problem.ops[id].rule, choice).has_value();
}

int64_t OpWork::localBytesOf(OpId id, const OpSharding &choice, const Mesh &mesh,
                             std::optional<FactorId> having, bool isResult) const {
  const Op &op = problem.ops[id];
  const std::vector<ValueId> &values = isResult ? op.results : op.operands;
  const std::vector<TensorFactors> &factors = isResult ? op.rule->results : op.rule->operands;
  int64_t bytes = 0;
  for (size_t i = 0; i < values.size(); ++i)
    if (!having || sharding::occurs(factors[i], *having))
      bytes += localBytes(problem.values[values[i]],
                          isResult ? sharding::resultSharding(op.rule, choice, i)
                                   : sharding::operandSharding(op.rule, choice, i),
                          mesh);
  return bytes;
}

/// Adds what a step makes to what earlier ones made.
LocalWork OpWork::mergeWork(OpId id, const OpSharding &choice, const Mesh &mesh) const {
  constexpr double passes = 3; // two are read, one is written
  return {.bytes = passes * double(localBytesOf(id, choice, mesh, std::nullopt, true)),
          .kernels = kMergeKernels};
}

Computing OpWork::computing(OpId id, const OpSharding &choice, const Mesh &mesh) const {
  LocalWork step = work(id, choice, mesh);
  Computing result = {model.opSeconds(step), step.kernels + step.passes};
  std::optional<Ring> ring = sharding::ringOf(problem.ops[id].rule, choice);
  if (!ring)
    return result;
  const bool zigzag = problem.ops[id].causal && whyInOrder(problem, facts, mesh).empty();
  int64_t later = mesh.size(ring->axes) - 1;
  LocalWork merge = mergeWork(id, choice, mesh);
  int64_t kernels = result.kernels;
  if (zigzag) { // the second chunk is merged twice; one pair is selected from two
    constexpr double merged = 1.5, selected = 1.5;
    merge.bytes = merged * merge.bytes +
                  selected * double(localBytesOf(id, choice, mesh, std::nullopt, false));
    merge.kernels += 2;
    kernels *= 2;
  }
  result.seconds +=
      double(later) * (laterStepSeconds(model, step, zigzag) + model.opSeconds(merge));
  result.kernels += later * (kernels + merge.kernels);
  return result;
}

std::vector<RingUse> OpWork::ring(OpId id, const OpSharding &choice, const Mesh &mesh) const {
  const Op &op = problem.ops[id];
  std::optional<Ring> ring = sharding::ringOf(op.rule, choice);
  if (!ring)
    return {};
  const Cluster &cluster = model.getCluster();
  int64_t hops = mesh.size(ring->axes) - 1;
  const bool zigzag = op.causal && whyInOrder(problem, facts, mesh).empty();
  bool overlaps = !cluster.sharedMemory && cluster.software.overlapCommunication;
  double free = // beside a step
      overlaps ? laterStepSeconds(model, work(id, choice, mesh), zigzag) : 0;
  std::vector<RingUse> result;
  auto add = [&](const std::vector<ValueId> &values, const std::vector<TensorFactors> &factors,
                 bool isResult) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (!sharding::occurs(factors[i], ring->travels))
        continue;
      auto sharding = isResult ? sharding::resultSharding(op.rule, choice, i)
                               : sharding::operandSharding(op.rule, choice, i);
      int64_t bytes = localBytes(problem.values[values[i]], sharding, mesh);
      double alone = model.collectiveSeconds(StepKind::Permute, ring->axes, double(bytes), mesh);
      double exposed = std::max(0.0, alone - free);
      free = std::max(0.0, free - alone);
      // Gradients come home after the last step, which nothing hides.
      double home = isResult ? alone - exposed : 0;
      result.push_back({ring->axes, bytes, hops, exposed * double(hops) + home});
    }
  };
  add(op.operands, op.rule->operands, false);
  add(op.results, op.rule->results, true);
  return result;
}

int64_t OpWork::ringBytes(OpId id, const OpSharding &choice, const Mesh &mesh) const {
  std::optional<Ring> ring = sharding::ringOf(problem.ops[id].rule, choice);
  if (!ring)
    return 0;
  // The parts that a step reads and those that arrive; what a step made, and gradients that arrive.
  // The backward pass needs a rank's own part no more once it is passed on.
  int64_t slots = std::min<int64_t>(2, mesh.size(ring->axes) - 1);
  int64_t more = problem.ops[id].backward ? slots - 1 : slots;
  return more * localBytesOf(id, choice, mesh, ring->travels, false) +
         localBytesOf(id, choice, mesh, std::nullopt, true) +
         (slots - 1) * localBytesOf(id, choice, mesh, ring->travels, true);
}

} // namespace dtc::plan
