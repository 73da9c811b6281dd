// From the chosen variables to a plan.
#include "dtc/Plan/Plan/SequenceOrder.h"
#include "dtc/Plan/Shard/ShardingSolver.h"
#include "dtc/Plan/Solve/Distinct.h"

#include <algorithm>

namespace dtc::plan {

using sharding::OpSharding;
using sharding::TensorSharding;

ShardingSolver::View ShardingSolver::viewOf(const Member &member,
                                            const std::vector<int> &chosen) {
  return views(member)[member.type == Member::Fixed ? 0 : chosen[member.variable]];
}

/// The choice by which an op of one factor a dimension makes this sharding.
static OpSharding sumSharding(const Op &op, const TensorSharding &sharding) {
  OpSharding result{std::vector<sharding::AxisList>(op.rule->factors.size()), {}};
  for (size_t dim = 0; dim < sharding.dims.size(); ++dim)
    for (sharding::FactorId factor : op.rule->results[0][dim])
      result.factors[factor] = sharding.dims[dim];
  for (size_t set = 0; set < op.rule->linear.size(); ++set)
    if (op.rule->linear[set].size() == op.operands.size()) {
      for (const sharding::Partial &partial : sharding.partial)
        result.pending.push_back({partial.axis, static_cast<int>(set)});
      break;
    }
  return result;
}

/// A sum is made in its value's sharding, unless all terms are alike and nothing but the value's
/// own bundle reads it. Then it stays as they are and is brought there by its readers.
void ShardingSolver::assembleSum(OpId id, const std::vector<int> &chosen, Plan &plan) {
  const Op &op = problem.ops[id];
  ValueId total = op.results[0], of = facts.gradientOf[total];
  std::vector<ShardingId> terms;
  for (ValueId value : op.operands)
    if (value >= problem.arguments)
      terms.push_back(shardingOf[value]);
  keepDistinct(terms);
  bool readBySum = std::any_of(
      facts.consumers[total].begin(), facts.consumers[total].end(),
      [&](OpId reader) { return problem.ops[reader].kind == OpKind::GradientSum; });
  ShardingId sharding = -1;
  if (of >= 0 && of < problem.arguments) {
    std::vector<ShardingId> leaves;
    int index = facts.gradientResult[of];
    for (ValueId value : leafTerms(index >= 0 ? problem.results[index].value : total))
      leaves.push_back(shardingOf[value]);
    sharding = accumulated(shardingOf[of], leaves);
  } else if (of < 0 || (terms.size() == 1 && !readBySum)) {
    sharding = terms.empty() ? viewOf(maker(total), chosen).made : terms[0];
  } else {
    sharding = viewOf(maker(total), chosen).made;
  }
  plan.ops[id] = sumSharding(op, shardings[sharding]);
  shardingOf[total] = shardings.intern(sharding::resultSharding(op.rule, plan.ops[id], 0));
}

void ShardingSolver::assembleArguments(const std::vector<int> &chosen, Plan &plan) {
  const bool zigzag = liesInZigzag(problem, facts, plan);
  for (ValueId value = 0; value < problem.arguments; ++value) {
    plan.arguments[value] = shardings[shardingOf[value]];
    const Value &argument = problem.values[value];
    if (zigzag)
      plan.arguments[value] = asLoaded(argument, plan.arguments[value], mesh);
    if (argument.kind == ValueKind::Parameter && argument.trainable)
      plan.storage.push_back({argument.name, shardings[shardingOf[value]], {}, {}, {}});
  }
  // What earlier microbatches summed up is laid out as the sum that takes it in.
  for (size_t id = 0; id < problem.ops.size(); ++id)
    for (size_t i = 0; i < problem.ops[id].operands.size(); ++i)
      if (ValueId value = problem.ops[id].operands[i];
          problem.values[value].kind == ValueKind::Accumulator)
        plan.arguments[value] =
            sharding::operandSharding(problem.ops[id].rule, plan.ops[id], i);
}

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

Plan ShardingSolver::assemble(const std::vector<int> &chosen) {
  Plan plan;
  plan.degrees = degrees;
  plan.mesh = mesh;
  plan.ops.resize(problem.ops.size());
  shardingOf.assign(problem.values.size(), -1);
  for (ValueId value = 0; value < problem.arguments; ++value)
    shardingOf[value] = viewOf(maker(value), chosen).made;
  for (size_t g = 0; g < bundles.bundles.size(); ++g) {
    const OpBundle &bundle = bundles.bundles[g];
    const ChoiceOutcome &outcome = choices.outcomes(bundle.kind)[chosen[bundleVariable[g]]];
    for (size_t i = 0; i < bundle.ops.size(); ++i)
      plan.ops[bundle.ops[i]] = outcome.ops[i];
    for (size_t i = 0; i < bundle.values.size(); ++i)
      if (outcome.produced[i] >= 0)
        shardingOf[bundle.values[i]] = outcome.produced[i];
  }
  for (OpId id = 0; id < static_cast<OpId>(problem.ops.size()); ++id)
    if (problem.ops[id].kind == OpKind::GradientSum)
      assembleSum(id, chosen, plan);
  assembleArguments(chosen, plan);
  plan.degrees.sp = usesSequenceParallel(problem, facts, plan);
  plan.stages = {{0, facts.lastForward, {}}};
  return plan;
}

} // namespace dtc::plan
