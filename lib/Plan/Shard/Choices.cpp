#include "dtc/Plan/Shard/Choices.h"

#include "Derivation.h"

#include "dtc/Plan/Shard/ContextExchange.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan {

using sharding::AxisId;
using sharding::AxisList;
using sharding::FactorId;
using sharding::FactorKind;
using sharding::OpSharding;
using sharding::TensorSharding;

Choices::Choices(const Problem &problem, const ProblemFacts &facts, const OpBundles &bundles,
                 const sharding::Mesh &mesh, TensorShardings &shardings, const OpWork &work,
                 std::optional<bool> sequenceParallel, TensorWeights weights,
                 ContextExchange contextExchange)
    : problem(problem), facts(facts), bundles(bundles), mesh(mesh), shardings(shardings),
      work(work), sequenceParallel(sequenceParallel), weights(weights),
      contextExchange(contextExchange), dataAxes(mesh.ofDegree("dp")),
      expertAxes(mesh.ofDegree("ep")), sequenceAxes(mesh.ofDegree("cp")),
      tensorAxes(mesh.ofDegree("tp")) {}

TensorSharding Choices::batchSharding(ValueId value) const {
  TensorSharding result = TensorSharding::replicated(problem.values[value].shape.size());
  auto split = [&](const AxisList &axes, int dim, bool pending) {
    for (AxisId axis : axes)
      if (dim >= 0)
        result.dims[dim].push_back(axis);
      else if (pending)
        result.partial.push_back({axis, sharding::ReduceKind::Sum});
  };
  split(dataAxes, facts.batchDim[value], facts.batchPending[value]);
  split(expertAxes, facts.batchDim[value], facts.batchPending[value]);
  split(sequenceAxes, facts.sequenceDim[value], facts.sequencePending[value]);
  return result;
}

/// The part of the choice that data, expert and context parallelism fix.
OpSharding Choices::base(OpId id, Across across) const {
  const Op &op = problem.ops[id];
  OpSharding result{std::vector<AxisList>(op.rule->factors.size()), {}};
  auto split = [&](const AxisList &axes, FactorId factor, int linearSet) {
    bool splits = factor >= 0 && (op.rule->factors[factor].kind == FactorKind::Parallel ||
                                  op.rule->factors[factor].kind == FactorKind::Reduction);
    for (AxisId axis : axes)
      if (splits)
        result.factors[factor].push_back(axis);
      else if (linearSet >= 0)
        result.pending.push_back({axis, linearSet});
  };
  split(dataAxes, facts.batchFactor[id], facts.batchLinear[id]);
  // Rows are in the order of the sequence's parts first.
  if (across != Across::Heads)
    split(sequenceAxes, facts.sequenceSplit[id], facts.sequenceLinear[id]);
  if (across == Across::Experts)
    split(expertAxes, bundles.experts.factor[id], -1);
  else if (!facts.isStatic[id] || bundles.experts.factor[id] < 0) // whole, it has a part for either
    split(expertAxes, facts.batchFactor[id], facts.batchLinear[id]);
  return result;
}

/// Without sequence parallelism what normalizations read and write is whole on
/// every rank, as in Megatron's tensor parallelism (Shoeybi et al. 2019, section 3).
bool Choices::isWhole(const Op &op) const {
  if (sequenceParallel.value_or(true))
    return false;
  return op.kind == OpKind::Normalization || feedsNormalization(problem, facts, op);
}

bool Choices::maySplit(OpId id, FactorId factor) const {
  const Op &op = problem.ops[id];
  FactorKind kind = op.rule->factors[factor].kind;
  if (isWhole(op))
    return false;
  if (kind == FactorKind::Whole || (kind == FactorKind::Rounds && op.keepRounds) ||
      factor == op.groupedExperts || factor == facts.batchFactor[id] ||
      (op.groupedExperts >= 0 && factor == facts.sequenceSplit[id]))
    return false;
  const std::vector<FactorId> &sequence = facts.sequenceFactors[id];
  return sequenceParallel.value_or(true) ||
         std::find(sequence.begin(), sequence.end(), factor) == sequence.end();
}

bool Choices::mustSplitSequence(const Op &op) const {
  return sequenceParallel.value_or(false) && op.kind == OpKind::Normalization;
}

/// Linear sets through which a forward op may pass a pending sum: arguments
/// never arrive pending.
static std::vector<int> passableSets(const Problem &problem, const Op &op) {
  std::vector<int> result;
  for (size_t set = 0; set < op.rule->linear.size(); ++set)
    if (std::all_of(op.rule->linear[set].begin(), op.rule->linear[set].end(),
                    [&](int i) { return op.operands[i] >= problem.arguments; }) &&
        !op.rule->linear[set].empty())
      result.push_back(static_cast<int>(set));
  return result;
}

/// Gives `axes` to one thing: to a factor, to a linear set through which sums
/// over them pass, to pending gradients, or to nothing.
void Choices::extend(const OpBundle &bundle, const Assignment &assignment, const AxisList &axes,
                     std::vector<Assignment> &result) const {
  OpId id = bundle.ops[0];
  const Op &op = problem.ops[id];
  result.push_back(assignment);
  for (size_t f = 0; f < op.rule->factors.size(); ++f) {
    if (!maySplit(id, static_cast<FactorId>(f)) ||
        std::find(assignment.first.factors[f].begin(), assignment.first.factors[f].end(),
                  tensorAxes[0]) != assignment.first.factors[f].end())
      continue;
    result.push_back(assignment);
    AxisList &list = result.back().first.factors[f];
    list.insert(list.end(), axes.begin(), axes.end());
  }
  for (int set : passableSets(problem, op)) {
    result.push_back(assignment);
    for (AxisId axis : axes)
      result.back().first.pending.push_back({axis, set});
  }
  if (bundle.ops.size() > 1) {
    result.push_back(assignment);
    result.back().second.insert(result.back().second.end(), axes.begin(), axes.end());
  }
}

/// How many of the tp axes, from the major one, divide a size.
size_t Choices::dividing(int64_t size) const {
  size_t count = 0;
  for (int64_t product = 1; count < tensorAxes.size(); ++count) {
    product *= mesh.axes[tensorAxes[count]].size;
    if (size % product != 0)
      break;
  }
  return count;
}

static bool endsWith(const AxisList &axes, const AxisList &end) {
  return axes.size() >= end.size() && std::equal(end.rbegin(), end.rend(), axes.rbegin());
}

/// All assignments of tp. Its axes stay together, but for a factor that only the major ones
/// divide. It takes those and leaves the others to something else. So 2 key-value heads under tp=4
/// are split by tp.0, and tp.1 splits the queries of each.
void Choices::assignTensor(const OpBundle &bundle, const Assignment &start,
                           std::vector<Assignment> &all) const {
  OpId id = bundle.ops[0];
  const Op &op = problem.ops[id];
  // A table that every layer reads would tie all layers together; it is cheap,
  // and whoever wants a part of it takes it without communication.
  if (facts.isStatic[id] || tensorAxes.empty()) {
    all.push_back(start);
    return;
  }
  extend(bundle, start, tensorAxes, all);
  for (size_t f = 0; f < op.rule->factors.size(); ++f) {
    size_t count = dividing(op.rule->factors[f].size);
    if (count == 0 || count == tensorAxes.size() || !maySplit(id, static_cast<FactorId>(f)))
      continue;
    Assignment major = start;
    AxisList &list = major.first.factors[f];
    list.insert(list.end(), tensorAxes.begin(), tensorAxes.begin() + count);
    extend(bundle, major, AxisList(tensorAxes.begin() + count, tensorAxes.end()), all);
  }
}

/// Leaves the choices that cut the weight of a product over all of tp, if there are any.
void Choices::keepSplitWeights(OpId id, std::vector<Assignment> &all) const {
  const Op &op = problem.ops[id];
  if (weights == TensorWeights::Any || op.kind != OpKind::Contraction)
    return;
  for (size_t operand = 0; operand < op.operands.size(); ++operand) {
    if (problem.values[op.operands[operand]].kind != ValueKind::Parameter)
      continue;
    auto isWhole = [&](const Assignment &assignment) {
      TensorSharding weight = operandSharding(op.rule, assignment.first, operand);
      return std::any_of(tensorAxes.begin(), tensorAxes.end(), [&](AxisId axis) {
        return std::none_of(weight.dims.begin(), weight.dims.end(), [&](const AxisList &axes) {
          return std::find(axes.begin(), axes.end(), axis) != axes.end();
        });
      });
    };
    if (!std::all_of(all.begin(), all.end(), isWhole))
      std::erase_if(all, isWhole);
  }
}

/// Whether ep may split the factor that counts experts.
static bool maySplitExperts(const Op &op, FactorId factor) {
  return factor >= 0 && (op.rule->factors[factor].kind == FactorKind::Parallel ||
                         op.rule->factors[factor].kind == FactorKind::Reduction);
}

/// Attention whose heads are split over cp, behind tp. None where heads can't be divided so.
std::vector<Choices::Assignment> Choices::acrossHeads(const OpBundle &bundle) const {
  OpId id = bundle.ops[0];
  const Op &op = problem.ops[id];
  std::vector<Assignment> result, all;
  if (contextExchange != ContextExchange::Heads || facts.isStatic[id] ||
      !mayExchangeHeads(op, mesh.size(sequenceAxes)))
    return result;
  assignTensor(bundle, {base(id, Across::Heads), {}}, all);
  for (const Assignment &assignment : all)
    for (FactorId heads : op.rule->operands[0][2]) {
      Assignment split = assignment;
      AxisList &axes = split.first.factors[heads];
      axes.insert(axes.end(), sequenceAxes.begin(), sequenceAxes.end());
      if (!sharding::check(op.rule, split.first, mesh).empty())
        continue;
      result.push_back(std::move(split));
      break;
    }
  return result;
}

bool mayGoRound(const Op &op) {
  if (op.kind != OpKind::Attention || op.operands.size() != 3 || op.window > 0 ||
      op.rule->operands[0].size() != 4)
    return false;
  const std::vector<FactorId> &queries = op.rule->operands[0][1], &keys = op.rule->operands[1][1];
  return queries.size() == 1 && keys.size() == 1 &&
         (!op.causal || op.rule->factors[queries[0]].size == op.rule->factors[keys[0]].size);
}

/// Attention whose keys go round the ranks of cp.
std::vector<Choices::Assignment> Choices::aroundRing(const OpBundle &bundle) const {
  OpId id = bundle.ops[0];
  const Op &op = problem.ops[id];
  std::vector<Assignment> result, all;
  if (contextExchange != ContextExchange::Ring || facts.isStatic[id] || !mayGoRound(op))
    return result;
  const FactorId queries = op.rule->operands[0][1][0], keys = op.rule->operands[1][1][0];
  assignTensor(bundle, {base(id, Across::Batch), {}}, all);
  for (Assignment &assignment : all) {
    if (assignment.first.factors[queries] != sequenceAxes)
      continue;
    assignment.first.factors[keys] = sequenceAxes;
    if (sharding::check(op.rule, assignment.first, mesh).empty())
      result.push_back(std::move(assignment));
  }
  return result;
}

/// Axes of samples and of sequences over which the terms of sums are that the bundle's gradients
/// read.
AxisList Choices::termAxes(const OpBundle &bundle) const {
  AxisList result;
  for (OpId id : bundle.ops)
    if (problem.ops[id].backward)
      for (ValueId value : problem.ops[id].operands)
        for (const sharding::Partial &partial : batchSharding(value).partial)
          if (std::find(result.begin(), result.end(), partial.axis) == result.end())
            result.push_back(partial.axis);
  return result;
}

/// Ops without samples may read weights before others do: a table of positions is cut to those in
/// use. The terms of their gradients pass, to be summed once a step, or are summed before. They are
/// where each rank of a sequence has a part of the table's gradient: ZeRO divides what has a term
/// on all ranks that it divides among.
void Choices::passTerms(const OpBundle &bundle, std::vector<Assignment> &all) const {
  const AxisList terms = termAxes(bundle);
  if (terms.empty() || terms.size() < dataAxes.size() + expertAxes.size() + sequenceAxes.size())
    return;
  const size_t count = all.size();
  for (size_t i = 0; i < count; ++i) {
    all.push_back(all[i]);
    all.back().second.insert(all.back().second.end(), terms.begin(), terms.end());
  }
}

std::vector<Choices::Assignment> Choices::enumerate(const OpBundle &bundle) const {
  OpId id = bundle.ops[0];
  const Op &op = problem.ops[id];
  std::vector<Assignment> all;
  if (!sequenceAxes.empty())
    all = contextExchange == ContextExchange::Ring ? aroundRing(bundle) : acrossHeads(bundle);
  if (all.empty() && (expertAxes.empty() || !bundles.experts.runs[id]))
    assignTensor(bundle, {base(id, Across::Batch), {}}, all);
  if (!expertAxes.empty() && !facts.isStatic[id] &&
      maySplitExperts(op, bundles.experts.factor[id]))
    assignTensor(bundle, {base(id, Across::Experts), {}}, all);
  std::erase_if(all, [&](Assignment &assignment) {
    std::sort(assignment.first.pending.begin(), assignment.first.pending.end());
    const std::vector<FactorId> &sequence = facts.sequenceFactors[id];
    if (mustSplitSequence(op) && !sequence.empty() && !tensorAxes.empty() &&
        !endsWith(assignment.first.factors[sequence[0]], tensorAxes))
      return true;
    return !sharding::check(op.rule, assignment.first, mesh).empty();
  });
  keepSplitWeights(id, all);
  passTerms(bundle, all);
  return all;
}

const std::vector<ChoiceOutcome> &Choices::outcomes(int kind) {
  auto [it, isNew] = cache.try_emplace(kind);
  if (!isNew)
    return it->second;
  const OpBundle &bundle = bundles.bundles[bundles.representative[kind]];
  Derivation derivation(problem, facts, bundle, mesh, shardings, work);
  using Outside = std::pair<std::vector<ShardingId>, std::vector<std::vector<ShardingId>>>;
  std::map<Outside, size_t> seen;
  std::vector<ChoiceOutcome> &result = it->second;
  for (const auto &[choice, pending] : enumerate(bundle)) {
    std::optional<ChoiceOutcome> outcome =
        derivation.run(choice, pending, [&](ValueId value) { return batchSharding(value); });
    if (!outcome || !std::isfinite(outcome->seconds))
      continue;
    auto [position, isFirst] =
        seen.try_emplace({outcome->produced, outcome->required}, result.size());
    if (isFirst)
      result.push_back(std::move(*outcome));
    else if (outcome->seconds < result[position->second].seconds)
      result[position->second] = std::move(*outcome);
  }
  return result;
}

} // namespace dtc::plan
