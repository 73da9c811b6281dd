#include "dtc/Plan/Shard/OpBundles.h"

#include <algorithm>
#include <map>

namespace dtc::plan {

using Key = std::vector<int64_t>;

static void encode(const sharding::TensorFactors &tensor, Key &key) {
  for (const std::vector<sharding::FactorId> &dim : tensor) {
    key.insert(key.end(), dim.begin(), dim.end());
    key.push_back(-1);
  }
  key.push_back(-2);
}

namespace {

/// Rules by number, equal ones by the same.
class RuleNumbers {
public:
  int operator[](const sharding::ShardingRule &rule) {
    auto [it, isNew] = shared.try_emplace(&rule, 0);
    if (isNew)
      it->second = distinct.try_emplace(keyOf(rule), static_cast<int>(distinct.size()))
                       .first->second;
    return it->second;
  }

private:
  static Key keyOf(const sharding::ShardingRule &rule);
  std::map<const sharding::ShardingRule *, int> shared; ///< those of several ops once
  std::map<Key, int> distinct;
};

} // namespace

Key RuleNumbers::keyOf(const sharding::ShardingRule &rule) {
  Key key;
  for (const sharding::Factor &factor : rule.factors)
    key.insert(key.end(), {factor.size, static_cast<int64_t>(factor.kind),
                           static_cast<int64_t>(factor.reduce)});
  key.push_back(-3);
  for (const sharding::TensorFactors &tensor : rule.operands)
    encode(tensor, key);
  for (const sharding::TensorFactors &tensor : rule.results)
    encode(tensor, key);
  for (const std::vector<int> &set : rule.linear) {
    key.insert(key.end(), set.begin(), set.end());
    key.push_back(-4);
  }
  return key;
}

static void encode(const Op &op, RuleNumbers &rules, Key &key) {
  key.insert(key.end(),
             {static_cast<int64_t>(op.kind), rules[op.rule], static_cast<int64_t>(op.flops),
              static_cast<int64_t>(op.scratch), static_cast<int64_t>(op.saved), op.keepRounds,
              op.causal, op.window, op.decomposed, op.workspace.fixed, op.workspace.perQuery,
              op.workspace.perSharedKey, op.workspace.tile, op.partAlignment, op.inProduct,
              op.widened, op.groupedExperts,
              op.backward ? static_cast<int64_t>(*op.backward) : -1});
  for (const Round &round : op.rounds) {
    key.insert(key.end(), {round.factor, round.elementBytes});
    key.insert(key.end(), round.tensor.begin(), round.tensor.end());
    key.push_back(-5);
  }
}

bool leaves(const ProblemFacts &facts, const OpBundle &bundle, ValueId value) {
  auto isMember = [&](OpId id) {
    return std::find(bundle.ops.begin(), bundle.ops.end(), id) != bundle.ops.end();
  };
  if (!isMember(facts.producer[value]))
    return false;
  const std::vector<OpId> &readers = facts.consumers[value];
  return facts.isResult[value] || !std::all_of(readers.begin(), readers.end(), isMember);
}

bool feedsNormalization(const Problem &problem, const ProblemFacts &facts, const Op &op) {
  auto isNorm = [&](OpId id) {
    return problem.ops[id].kind == OpKind::Normalization && !problem.ops[id].backward;
  };
  return op.kind == OpKind::Elementwise && !op.backward &&
         std::any_of(op.results.begin(), op.results.end(), [&](ValueId value) {
           const std::vector<OpId> &readers = facts.consumers[value];
           return std::any_of(readers.begin(), readers.end(), isNorm);
         });
}

/// All that decides what a choice for the bundle means, with values numbered
/// within the bundle.
static Key signature(const Problem &problem, const ProblemFacts &facts, const Experts &experts,
                     RuleNumbers &rules, OpBundle &bundle) {
  Key key;
  auto find = [&](ValueId value) { // few
    return std::find(bundle.values.begin(), bundle.values.end(), value) - bundle.values.begin();
  };
  auto number = [&](ValueId value) {
    int64_t place = find(value);
    if (place == static_cast<int64_t>(bundle.values.size()))
      bundle.values.push_back(value);
    return place;
  };
  for (OpId id : bundle.ops) {
    const Op &op = problem.ops[id];
    encode(op, rules, key);
    for (ValueId value : op.operands)
      key.push_back(number(value));
    for (ValueId value : op.results)
      key.push_back(number(value));
    key.insert(key.end(), {facts.batchFactor[id], facts.isStatic[id], experts.factor[id],
                           experts.runs[id], feedsNormalization(problem, facts, op)});
    key.insert(key.end(), facts.sequenceFactors[id].begin(), facts.sequenceFactors[id].end());
    const KernelPart &part = facts.kernelParts[id];
    key.insert(key.end(), {part.launches, part.isCounted, part.addsInPlace});
    key.insert(key.end(), part.reads.begin(), part.reads.end());
    key.insert(key.end(), part.writes.begin(), part.writes.end());
    key.push_back(-6);
  }
  for (ValueId value : bundle.values) {
    const Value &v = problem.values[value];
    int64_t of = find(facts.gradientOf[value]);
    key.insert(key.end(), v.shape.begin(), v.shape.end());
    key.insert(key.end(), {-7, static_cast<int64_t>(v.type), static_cast<int64_t>(v.kind),
                           facts.materialized[value], facts.batchDim[value],
                           of == static_cast<int64_t>(bundle.values.size()) ? -1 : of,
                           facts.batchPending[value],
                           leaves(facts, bundle, value)});
  }
  return key;
}

OpBundles::OpBundles(const Problem &problem, const ProblemFacts &facts)
    : bundleOf(problem.ops.size(), -1), experts(problem, facts) {
  for (OpId id = 0; id < static_cast<OpId>(problem.ops.size()); ++id) {
    const Op &op = problem.ops[id];
    if (op.kind == OpKind::GradientSum)
      continue;
    if (op.backward && op.forward >= 0 && bundleOf[op.forward] >= 0) {
      bundleOf[id] = bundleOf[op.forward];
    } else {
      bundleOf[id] = static_cast<int>(bundles.size());
      bundles.emplace_back();
    }
    bundles[bundleOf[id]].ops.push_back(id);
  }
  RuleNumbers rules;
  std::map<Key, int> kinds;
  for (size_t i = 0; i < bundles.size(); ++i) {
    auto [it, isNew] = kinds.try_emplace(signature(problem, facts, experts, rules, bundles[i]),
                                         static_cast<int>(kinds.size()));
    if (isNew)
      representative.push_back(static_cast<int>(i));
    bundles[i].kind = it->second;
  }
}

} // namespace dtc::plan
