#include "Derivation.h"

#include "dtc/Plan/Solve/Distinct.h"
#include "dtc/Sharding/Ring.h"

#include <algorithm>

namespace dtc::plan {

using sharding::AxisId;
using sharding::AxisList;
using sharding::OpSharding;
using sharding::ReduceKind;
using sharding::ShardingRule;
using sharding::TensorSharding;

Derivation::Derivation(const Problem &problem, const ProblemFacts &facts, const OpBundle &bundle,
                       const sharding::Mesh &mesh, TensorShardings &shardings, const OpWork &work)
    : problem(problem), facts(facts), bundle(bundle), mesh(mesh), shardings(shardings), work(work) {
  for (size_t i = 0; i < bundle.values.size(); ++i)
    numbers[bundle.values[i]] = static_cast<int>(i);
  made.assign(bundle.values.size(), false);
  for (OpId op : bundle.ops)
    for (ValueId value : problem.ops[op].results)
      made[local(value)] = true;
  for (ValueId value : bundle.values)
    leaving.push_back(leaves(facts, bundle, value));
}

int Derivation::local(ValueId value) const { return numbers.at(value); }

static TensorSharding complete(TensorSharding sharding) {
  sharding.partial.clear();
  return sharding;
}

/// Decides the forward op and, from it, how its tensors are read backward.
void Derivation::start(const OpSharding &choice) {
  size_t count = bundle.values.size();
  outcome = {};
  outcome.ops.resize(bundle.ops.size());
  outcome.produced.assign(count, -1);
  outcome.required.assign(count, {});
  known.assign(count, false);
  reading.assign(count, {});
  production.assign(count, {});
  hint.assign(count, std::nullopt);
  const Op &op = problem.ops[bundle.ops[0]];
  goesRound = sharding::ringOf(op.rule, choice).has_value();
  roundsSplit = !goesRound && sharding::needsRounds(op.rule, choice);
  apply(0, choice);
  auto tie = [&](ValueId value, TensorSharding sharding) {
    int i = local(value);
    if (!known[i])
      reading[i] = complete(std::move(sharding));
    known[i] = true;
  };
  for (size_t i = 0; i < op.operands.size(); ++i)
    tie(op.operands[i], sharding::operandSharding(op.rule, choice, i));
  for (size_t i = 0; i < op.results.size(); ++i)
    tie(op.results[i], sharding::resultSharding(op.rule, choice, i));
}

/// The forward value whose gradient this is: what is known of it, or a tensor of the forward op
/// that has its shape. (A gradient that passes through an addition belongs to several.) Gradients
/// made here belong to operands, those from outside to results.
int Derivation::forwardOf(size_t value, bool isMade) const {
  const Op &forward = problem.ops[bundle.ops[0]];
  const std::vector<ValueId> &candidates = isMade ? forward.operands : forward.results;
  ValueId of = facts.gradientOf[bundle.values[value]];
  if (std::find(candidates.begin(), candidates.end(), of) != candidates.end())
    return local(of);
  for (ValueId candidate : candidates)
    if (problem.values[candidate].shape == problem.values[bundle.values[value]].shape)
      return local(candidate);
  return -1;
}

static ShardingRule reversed(const ShardingRule &rule) {
  return {rule.factors, rule.results, rule.operands, {}};
}

static std::vector<int64_t> bytesOf(const Problem &problem, const std::vector<ValueId> &values) {
  std::vector<int64_t> result;
  for (ValueId value : values)
    result.push_back(problem.values[value].bytes());
  return result;
}

/// Of a value from outside that is joined with others to the gradient of a result. (The result is
/// of a product that is cut into gate and up.) It is laid out as in that.
std::optional<TensorSharding> Derivation::pieceSharding(size_t value) const {
  for (OpId id : bundle.ops) {
    const Op &op = problem.ops[id];
    auto operand = std::find(op.operands.begin(), op.operands.end(), bundle.values[value]);
    if (op.kind != OpKind::Join || op.backward != BackwardKind::Accumulate ||
        operand == op.operands.end())
      continue;
    int forward = forwardOf(static_cast<size_t>(local(op.results[0])), false);
    if (forward < 0)
      continue;
    OpSharding choice = sharding::follow(reversed(op.rule), {reading[forward]},
                                         bytesOf(problem, op.results), mesh, false);
    auto index = static_cast<size_t>(operand - op.operands.begin());
    return complete(sharding::operandSharding(op.rule, choice, index));
  }
  return std::nullopt;
}

TensorSharding Derivation::gradientSharding(size_t value, const AxisList &pending,
                                            TensorSharding otherwise) const {
  OpId producer = facts.producer[bundle.values[value]];
  bool isGradient = producer >= 0 && problem.ops[producer].backward;
  int forward = isGradient && !made[value] ? forwardOf(value, false) : -1;
  if (forward < 0)
    return isGradient && !made[value] ? pieceSharding(value).value_or(otherwise) : otherwise;
  TensorSharding result = reading[forward];
  for (AxisId axis : pending)
    if (!result.splits(axis))
      result.partial.push_back({axis, ReduceKind::Sum});
  std::sort(result.partial.begin(), result.partial.end());
  return result;
}

/// From the end, how each gradient should be made so that it comes out laid out
/// as its value. Decides what operands can't: the rows of a split embedding's
/// gradient are in none of them.
void Derivation::findHints() {
  for (size_t index = bundle.ops.size(); index-- > 1;) {
    const Op &op = problem.ops[bundle.ops[index]];
    std::vector<TensorSharding> results;
    for (ValueId value : op.results) {
      int i = local(value);
      int forward = leaving[i] ? forwardOf(i, true) : -1;
      if (!hint[i] && forward >= 0)
        hint[i] = reading[forward];
      results.push_back(
          hint[i].value_or(TensorSharding::replicated(problem.values[value].shape.size())));
    }
    OpSharding choice = sharding::follow(reversed(op.rule), results,
                                         bytesOf(problem, op.results), mesh, roundsSplit);
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (int operand = local(op.operands[i]); made[operand] && !hint[operand])
        hint[operand] = complete(sharding::operandSharding(op.rule, choice, i));
  }
}

/// Makes sure that operands pending over `axes` stay so where they can only be
/// read so.
static bool passPending(const ShardingRule &rule, const std::vector<TensorSharding> &operands,
                        const AxisList &axes, OpSharding &choice) {
  for (AxisId axis : axes) {
    std::vector<int> members;
    for (size_t i = 0; i < operands.size(); ++i)
      if (operands[i].isPartial(axis))
        members.push_back(static_cast<int>(i));
    if (members.empty() || choice.uses(axis))
      continue;
    auto set = std::find(rule.linear.begin(), rule.linear.end(), members);
    if (set == rule.linear.end())
      return false;
    choice.pending.push_back({axis, static_cast<int>(set - rule.linear.begin())});
  }
  std::sort(choice.pending.begin(), choice.pending.end());
  return true;
}

bool Derivation::deriveBackward(size_t index, const AxisList &pending) {
  const Op &op = problem.ops[bundle.ops[index]];
  // Results take part as operands of no weight, with the sharding hoped for.
  ShardingRule rule = op.rule;
  std::vector<TensorSharding> tensors;
  std::vector<int64_t> bytes = bytesOf(problem, op.operands);
  for (ValueId value : op.operands)
    tensors.push_back(reading[local(value)]);
  size_t operands = tensors.size();
  for (size_t i = 0; i < op.results.size(); ++i) {
    rule.operands.push_back(rule.results[i]);
    size_t rank = rule.results[i].size();
    tensors.push_back(hint[local(op.results[i])].value_or(TensorSharding::replicated(rank)));
    bytes.push_back(0);
  }
  bool rounds = roundsSplit && !op.keepRounds;
  OpSharding choice = sharding::follow(rule, tensors, bytes, mesh, rounds);
  if (goesRound && op.kind == OpKind::Attention)
    choice = {outcome.ops[0].factors, {}}; // its gradients go round as well
  tensors.resize(operands);
  if (!passPending(op.rule, tensors, pending, choice))
    return false;
  apply(index, choice);
  for (ValueId value : op.results)
    reading[local(value)] = production[local(value)];
  return true;
}

/// Records an op's choice: what it costs, needs and makes.
void Derivation::apply(size_t index, const OpSharding &choice) {
  const Op &op = problem.ops[bundle.ops[index]];
  outcome.ops[index] = choice;
  outcome.seconds += work.seconds(bundle.ops[index], choice, mesh);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    int value = local(op.operands[i]);
    outcome.required[value].push_back(
        shardings.intern(sharding::operandSharding(op.rule, choice, i)));
  }
  for (size_t i = 0; i < op.results.size(); ++i) {
    int value = local(op.results[i]);
    production[value] = sharding::resultSharding(op.rule, choice, i);
    outcome.produced[value] = shardings.intern(production[value]);
    if (index == 0 && facts.materialized[op.results[i]])
      outcome.bytes += double(localBytes(problem.values[op.results[i]], production[value], mesh));
  }
}

/// Prices what stays inside; what leaves is priced with its other readers.
ChoiceOutcome Derivation::finish() {
  for (size_t value = 0; value < bundle.values.size(); ++value) {
    std::vector<ShardingId> &required = outcome.required[value];
    keepDistinct(required);
    if (!made[value] || leaving[value])
      continue;
    for (ShardingId sharding : required)
      outcome.seconds += shardings.reshardSeconds(problem.values[bundle.values[value]],
                                                  outcome.produced[value], sharding);
    required.clear();
  }
  return std::move(outcome);
}

} // namespace dtc::plan
