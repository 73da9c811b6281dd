// What there is to decide, and how values lie for each choice.
#include "Statement.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan::testing {

using sharding::FactorId;
using sharding::FactorKind;

//===-- choices -----------------------------------------------------------===//

static bool splits(const Op &op, FactorId factor) {
  return factor >= 0 && (op.rule->factors[factor].kind == FactorKind::Parallel ||
                         op.rule->factors[factor].kind == FactorKind::Reduction);
}

/// dp splits the batch and cp the sequence, or what is summed over them pends.
OpSharding Statement::pinned(OpId id) const {
  const Op &op = problem.ops[id];
  OpSharding result{std::vector<AxisList>(op.rule->factors.size()), {}};
  for (const char *degree : {"dp", "cp"}) {
    bool isBatch = *degree == 'd';
    FactorId factor = isBatch ? facts.batchFactor[id] : facts.sequenceSplit[id];
    int set = isBatch ? facts.batchLinear[id] : facts.sequenceLinear[id];
    for (sharding::AxisId axis : mesh.ofDegree(degree))
      if (splits(op, factor))
        result.factors[factor].push_back(axis);
      else if (set >= 0)
        result.pending.push_back({axis, set});
  }
  return result;
}

/// `axes` split one factor, let one sum pass, or do nothing.
void Statement::place(const OpSharding &start, OpId id, const AxisList &axes,
                      std::vector<OpSharding> &result) const {
  const Op &op = problem.ops[id];
  result.push_back(start);
  for (size_t f = 0; f < op.rule->factors.size(); ++f) {
    FactorKind kind = op.rule->factors[f].kind;
    if (kind == FactorKind::Whole || (kind == FactorKind::Rounds && op.keepRounds) ||
        static_cast<FactorId>(f) == op.groupedExperts ||
        static_cast<FactorId>(f) == facts.batchFactor[id])
      continue;
    result.push_back(start);
    result.back().factors[f].insert(result.back().factors[f].end(), axes.begin(), axes.end());
  }
  for (size_t set = 0; set < op.rule->linear.size(); ++set) {
    result.push_back(start);
    for (sharding::AxisId axis : axes)
      result.back().pending.push_back({axis, static_cast<int>(set)});
  }
}

/// All legal choices of an op. A degree of several axes may be shared between a factor that only
/// the first of them divide and something else.
std::vector<OpSharding> Statement::enumerate(OpId id) const {
  const Op &op = problem.ops[id];
  OpSharding start = pinned(id);
  if (facts.isStatic[id] || tensorAxes.empty())
    return {start};
  std::vector<OpSharding> result;
  place(start, id, tensorAxes, result);
  for (size_t f = 0; f < op.rule->factors.size(); ++f)
    for (size_t count = 1; count < tensorAxes.size(); ++count) {
      AxisList first(tensorAxes.begin(), tensorAxes.begin() + count),
          rest(tensorAxes.begin() + count, tensorAxes.end());
      bool isMost = op.rule->factors[f].size % (mesh.size(first) * mesh.axes[rest[0]].size) != 0;
      FactorKind kind = op.rule->factors[f].kind;
      if (!isMost || kind == FactorKind::Whole || (kind == FactorKind::Rounds && op.keepRounds) ||
          static_cast<FactorId>(f) == op.groupedExperts ||
          static_cast<FactorId>(f) == facts.batchFactor[id])
        continue;
      OpSharding major = start;
      major.factors[f].insert(major.factors[f].end(), first.begin(), first.end());
      place(major, id, rest, result);
    }
  for (OpSharding &choice : result)
    std::sort(choice.pending.begin(), choice.pending.end());
  std::erase_if(result, [&](const OpSharding &choice) {
    return !sharding::check(op.rule, choice, mesh).empty();
  });
  std::vector<OpSharding> distinct;
  for (const OpSharding &choice : result)
    if (std::find(distinct.begin(), distinct.end(), choice) == distinct.end())
      distinct.push_back(choice);
  return distinct;
}

void Statement::addBundles() {
  OpBundles bundles(problem, facts);
  TensorShardings planners(mesh, model);
  Choices choices(problem, facts, bundles, mesh, planners, work, {}, TensorWeights::Any);
  deciderOf.assign(problem.ops.size(), -1);
  for (const OpBundle &bundle : bundles.bundles) {
    Decider decider;
    decider.ops = bundle.ops;
    decider.name = "op " + std::to_string(bundle.ops[0]) + " " + problem.ops[bundle.ops[0]].name;
    if (bundle.ops.size() == 1)
      for (OpSharding &choice : enumerate(bundle.ops[0]))
        decider.choices.push_back({std::move(choice)});
    else
      for (const ChoiceOutcome &outcome : choices.outcomes(bundle.kind))
        decider.choices.push_back(outcome.ops);
    for (const std::vector<OpSharding> &choice : decider.choices) {
      double cost = 0;
      for (size_t i = 0; i < bundle.ops.size(); ++i)
        cost += work.seconds(bundle.ops[i], choice[i], mesh);
      decider.costs.push_back(calls * cost);
    }
    for (OpId op : bundle.ops)
      deciderOf[op] = static_cast<int>(deciders.size());
    deciders.push_back(std::move(decider));
  }
}

/// A parameter lies as one of its readers wants it, the same in every step.
void Statement::addParameters() {
  for (ValueId value = 0; value < problem.arguments; ++value) {
    if (problem.values[value].kind != ValueKind::Parameter)
      continue;
    Decider decider;
    decider.name = "parameter " + problem.values[value].name;
    decider.parameter = value;
    for (const Part &reader : readers(value))
      for (const std::vector<int> &list : reader.shardings)
        for (int sharding : list)
          if (shardings[sharding].partial.empty() &&
              std::find(decider.shardings.begin(), decider.shardings.end(), shardings[sharding]) ==
                  decider.shardings.end())
            decider.shardings.push_back(shardings[sharding]);
    if (decider.shardings.empty())
      decider.shardings = {TensorSharding::replicated(problem.values[value].shape.size())};
    for (const TensorSharding &sharding : decider.shardings) {
      bool trained = facts.gradientResult[value] >= 0;
      ParameterBytes bytes =
          parameterBytes(problem, value, trained, sharding, mesh, model.getCluster().software);
      decider.costs.push_back(
          trained ? model.streamSeconds(double(bytes.updateTraffic() + bytes.gradient)) +
                        model.updateLaunchSeconds(1)
                  : model.streamSeconds(0));
    }
    parameterDecider[value] = static_cast<int>(deciders.size());
    deciders.push_back(std::move(decider));
  }
}

//===-- shardings of values -------------------------------------------------===//

int Statement::intern(const TensorSharding &sharding) {
  auto it = std::find(shardings.begin(), shardings.end(), sharding);
  if (it == shardings.end())
    it = shardings.insert(shardings.end(), sharding);
  return static_cast<int>(it - shardings.begin());
}

double Statement::seconds(const Value &value, int from, int to) {
  auto steps = sharding::reshard(shardings[from], shardings[to], mesh);
  if (!steps)
    return HUGE_VAL;
  double sum = 0;
  TensorSharding before = shardings[from];
  for (const sharding::ReshardStep &step : *steps) {
    int64_t bytes = sharding::stepBytes(step, before, value.shape, byteSize(value.type), mesh);
    sum += model.collectiveSeconds(step.kind, step.axes, double(bytes), mesh);
    before = step.after;
  }
  return sum;
}

/// Arguments that nothing decides lie as data and context parallelism have them.
TensorSharding Statement::batchSharding(ValueId value) const {
  TensorSharding result = TensorSharding::replicated(problem.values[value].shape.size());
  for (auto [degree, dim] : {std::pair("dp", facts.batchDim[value]),
                             std::pair("cp", facts.sequenceDim[value])})
    for (sharding::AxisId axis : mesh.ofDegree(degree))
      if (dim >= 0)
        result.dims[dim].push_back(axis);
  return result;
}

TensorSharding Statement::madeBy(const Decider &decider, size_t choice, ValueId value) const {
  if (decider.parameter >= 0)
    return decider.shardings[choice];
  for (size_t i = 0; i < decider.ops.size(); ++i) {
    const Op &op = problem.ops[decider.ops[i]];
    for (size_t r = 0; r < op.results.size(); ++r)
      if (op.results[r] == value)
        return sharding::resultSharding(op.rule, decider.choices[choice][i], r);
  }
  return {};
}

Part Statement::completed(Part part) {
  for (std::vector<int> &list : part.shardings)
    for (int &sharding : list) {
      TensorSharding whole = shardings[sharding];
      whole.partial.clear();
      sharding = intern(whole);
    }
  return part;
}

/// A sum of gradients that several ops make, of a value or a parameter.
bool Statement::isTotal(ValueId value) const {
  OpId producer = facts.producer[value];
  return producer >= 0 && problem.ops[producer].kind == OpKind::GradientSum;
}

/// Who decides how a value is made. A sum of gradients is made as the value whose
/// gradient it is lies.
Part Statement::maker(ValueId value) {
  OpId producer = facts.producer[value];
  Part part;
  if (auto it = parameterDecider.find(value); it != parameterDecider.end())
    part.decider = it->second;
  else if (producer >= 0)
    part.decider = deciderOf[producer];
  if (part.decider < 0 && isTotal(value) && facts.gradientOf[value] >= 0) {
    bool isParameter = facts.gradientOf[value] < problem.arguments;
    Part of = maker(facts.gradientOf[value]);
    return isParameter ? of : completed(of);
  }
  if (part.decider < 0) {
    part.shardings = {{intern(batchSharding(value))}};
    return part;
  }
  const Decider &decider = deciders[part.decider];
  for (size_t choice = 0; choice < decider.costs.size(); ++choice)
    part.shardings.push_back({intern(madeBy(decider, choice, value))});
  return part;
}

/// The shardings in which ops read a value, each decider once.
std::vector<Part> Statement::readers(ValueId value) {
  std::map<int, Named> result;
  for (OpId id : facts.consumers[value]) {
    if (deciderOf[id] < 0)
      continue;
    const Decider &decider = deciders[deciderOf[id]];
    size_t index = std::find(decider.ops.begin(), decider.ops.end(), id) - decider.ops.begin();
    Named &named = result[deciderOf[id]];
    named.resize(decider.choices.size());
    for (size_t i = 0; i < problem.ops[id].operands.size(); ++i)
      if (problem.ops[id].operands[i] == value)
        for (size_t choice = 0; choice < decider.choices.size(); ++choice)
          named[choice].push_back(intern(
              sharding::operandSharding(problem.ops[id].rule, decider.choices[choice][index], i)));
  }
  std::vector<Part> parts;
  for (auto &[decider, named] : result)
    parts.push_back({decider, std::move(named)});
  return parts;
}

} // namespace dtc::plan::testing
