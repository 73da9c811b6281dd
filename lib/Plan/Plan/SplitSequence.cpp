// The same graph for context parallelism.
#include "dtc/Plan/Plan/Problem.h"

#include <map>
#include <set>

namespace dtc::plan {

using sharding::FactorId;
using sharding::FactorKind;
using sharding::ShardingRule;
using sharding::TensorFactors;

static bool hasQueries(const Op &op) {
  return op.kind == OpKind::Attention && op.causal && !op.rule->operands.empty() &&
         op.rule->operands[0].size() >= 2;
}

static ShardingRule withParallelQueries(ShardingRule rule) {
  for (FactorId factor : rule.operands[0][1])
    rule.factors[factor].kind = FactorKind::Parallel;
  return rule;
}

/// Whether rows of this op choose their experts: its last operand says which.
static bool hasRows(const Op &op) {
  return op.groupedExperts >= 0 && !op.rule->operands.empty() &&
         op.rule->operands.back().size() >= 2;
}

/// Whether a dimension counts the rows of a sample: as its choices do or, in dispatch and
/// combine, in the order of the experts.
static bool countsRows(const Op &op, const std::vector<FactorId> &dim) {
  bool byExperts = op.kind == OpKind::Lookup && !dim.empty() && dim.front() == op.groupedExperts;
  return byExperts || dim == op.rule->operands.back()[1];
}

/// A new major factor of the rows: parts of the sequence. The rule as it is where rows can't be
/// shared out so.
static ShardingRule withRowsInParts(const Op &op, int64_t parts) {
  ShardingRule rule = op.rule;
  auto part = static_cast<FactorId>(rule.factors.size());
  std::set<FactorId> rows; // within a part, by either order
  for (std::vector<TensorFactors> *tensors : {&rule.operands, &rule.results})
    for (TensorFactors &tensor : *tensors)
      for (std::vector<FactorId> &dim : tensor)
        if (!dim.empty() && countsRows(op, dim)) {
          rows.insert(dim.back());
          dim.insert(dim.begin(), part);
        }
  for (FactorId factor : rows)
    if (factor == op.groupedExperts || rule.factors[factor].size % parts != 0)
      return op.rule;
  if (rows.empty())
    return op.rule;
  sharding::Factor split = rule.factors[*rows.begin()];
  split.size = parts;
  if (split.kind == FactorKind::Whole) // dispatch and combine, which see the rows of a part whole
    split.kind = FactorKind::Parallel;
  for (FactorId factor : rows)
    rule.factors[factor].size /= parts;
  rule.factors.push_back(split);
  return rule;
}

Problem withSplitSequence(Problem problem, int64_t ranks) {
  std::map<std::pair<const ShardingRule *, FactorId>, sharding::SharedRule> changed;
  for (Op &op : problem.ops) {
    if (ranks <= 1 || (!hasQueries(op) && !hasRows(op)))
      continue;
    auto [it, isNew] = changed.try_emplace({&*op.rule, op.groupedExperts});
    if (isNew)
      it->second = hasRows(op) ? withRowsInParts(op, ranks) : withParallelQueries(op.rule);
    op.rule = it->second;
  }
  return problem;
}

} // namespace dtc::plan
