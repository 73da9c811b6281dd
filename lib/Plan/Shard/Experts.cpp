#include "dtc/Plan/Shard/Experts.h"

#include "dtc/Plan/Plan/KernelParts.h"

#include <algorithm>
#include <numeric>

namespace dtc::plan {

using sharding::FactorId;
using sharding::TensorFactors;

/// The factor of a dimension that would count experts: the major one, unless that is known to be
/// another; -1: none.
static FactorId majorOf(const Op &op, const std::vector<FactorId> &dim) {
  if (op.groupedExperts < 0)
    return dim.empty() ? -1 : dim.front();
  return std::find(dim.begin(), dim.end(), op.groupedExperts) != dim.end() ? op.groupedExperts : -1;
}

/// The dimension that the factor counts experts in, or -1.
static int dimensionOf(const Op &op, const TensorFactors &tensor, FactorId factor) {
  for (size_t dim = 0; factor >= 0 && dim < tensor.size(); ++dim)
    if (majorOf(op, tensor[dim]) == factor)
      return static_cast<int>(dim);
  return -1;
}

/// Of rows in slots each meets one expert of its part.
static bool isProduct(const Op &op) {
  return (op.isGroupedProduct() && op.results.size() == 1) || isMatrixProduct(op);
}

static FactorId expertsOf(const Problem &problem, const Op &op) {
  if (op.backward)
    return -1;
  if (op.groupedExperts >= 0)
    return op.kind == OpKind::Contraction ? op.groupedExperts : -1;
  if (!isProduct(op))
    return -1;
  auto isWeight = [&](int i) {
    const Value &value = problem.values[op.operands[i]];
    return value.kind == ValueKind::Parameter;
  };
  if (isWeight(0) == isWeight(1))
    return -1;
  for (FactorId factor = 0; factor < static_cast<FactorId>(op.rule->factors.size()); ++factor)
    if (dimensionOf(op, op.rule->operands[0], factor) >= 0 &&
        dimensionOf(op, op.rule->operands[1], factor) >= 0 &&
        dimensionOf(op, op.rule->results[0], factor) >= 0)
      return factor;
  return -1;
}

/// Spreads the dimension that counts experts from the contractions over the forward
/// pass, in both directions.
static void spread(const Problem &problem, const ProblemFacts &facts,
                   std::vector<FactorId> &factors) {
  std::vector<int> dims(problem.values.size(), -1);
  auto visit = [&](OpId id) {
    const Op &op = problem.ops[id];
    bool changed = false;
    auto each = [&](auto apply) {
      for (size_t i = 0; i < op.operands.size(); ++i)
        apply(op.operands[i], op.rule->operands[i]);
      for (size_t i = 0; i < op.results.size(); ++i)
        apply(op.results[i], op.rule->results[i]);
    };
    each([&](ValueId value, const TensorFactors &tensor) {
      if (factors[id] >= 0 || dims[value] < 0)
        return;
      factors[id] = majorOf(op, tensor[dims[value]]);
      changed |= factors[id] >= 0;
    });
    each([&](ValueId value, const TensorFactors &tensor) {
      if (int dim = dimensionOf(op, tensor, factors[id]);
          dims[value] < 0 && dim >= 0 && value >= problem.arguments) {
        dims[value] = dim;
        changed = true;
      }
    });
    return changed;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (OpId id = 0; id <= facts.lastForward; ++id)
      changed |= visit(id);
    for (OpId id = facts.lastForward + 1; id-- > 0;)
      changed |= visit(id);
  }
}

Experts::Experts(const Problem &problem, const ProblemFacts &facts)
    : factor(problem.ops.size(), -1), runs(problem.ops.size(), false) {
  int64_t common = 0;
  for (OpId id = 0; id < static_cast<OpId>(problem.ops.size()); ++id)
    if (FactorId experts = expertsOf(problem, problem.ops[id]); experts >= 0) {
      factor[id] = experts;
      areGrouped |= problem.ops[id].groupedExperts >= 0;
      runs[id] = true;
      common = std::gcd(common, problem.ops[id].rule->factors[experts].size);
    }
  if (common == 0)
    return;
  mostRanks = common;
  spread(problem, facts, factor);
}

} // namespace dtc::plan
