#include "ShardingStatement.h"

#include "Fold.h"
#include "OpWork.h"
#include "Planners/ShardingSolver.h"

#include "dtc/Plan/Verify.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace dtc::plan::testing {

using nlohmann::json;
using sharding::AxisList;
using sharding::FactorId;
using sharding::FactorKind;
using sharding::OpSharding;
using sharding::TensorSharding;

namespace {

/// Of a decider: by choice, the layouts that it names.
using Named = std::vector<std::vector<int>>;

struct Decider {
  std::string name;
  std::vector<OpId> ops;   ///< none: a parameter's
  ValueId parameter = -1;
  std::vector<std::vector<OpSharding>> choices; ///< by choice, by op
  std::vector<TensorSharding> layouts;          ///< of a parameter's choices
  std::vector<double> costs;
};

/// A decider's part in a transfer; decider -1: always the same.
struct Part {
  int decider = -1;
  Named layouts;
};

class Statement {
public:
  explicit Statement(const StatementCase &given)
      : problem(given.problem), facts(problem), degrees(given.degrees),
        calls(double(given.options.numMicrobatches ? given.options.numMicrobatches
                                                   : problem.numMicrobatches)),
        mesh(makeMesh(problem, facts, degrees)), model(given.cluster, degrees.devices()),
        work(problem, facts, model), tensorAxes(mesh.ofDegree("tp")) {}

  json run(const Solution &solution);

private:
  OpSharding pinned(OpId op) const;
  void place(const OpSharding &start, OpId op, const AxisList &axes,
             std::vector<OpSharding> &result) const;
  std::vector<OpSharding> enumerate(OpId op) const;
  void addGroups();
  void addOwnChoices(const Groups &groups);
  void addParameters();

  int intern(const TensorSharding &layout);
  double seconds(const Value &value, int from, int to);
  TensorSharding batchLayout(ValueId value) const;
  TensorSharding madeBy(const Decider &decider, size_t choice, ValueId value) const;
  Part maker(ValueId value);
  std::vector<Part> readers(ValueId value);
  Part completed(Part part);
  bool isTotal(ValueId value) const;
  std::vector<ValueId> termsOf(ValueId total) const;
  std::vector<Part> joined(const std::vector<Part> &parts) const;
  void addTransfer(const Value &value, const Part &hub, std::vector<Part> spokes, bool toHub);
  void addValue(ValueId value);
  void addSum(OpId op);
  void addGradient(ValueId parameter);
  double gradientSeconds(const Value &parameter, int layout, const std::set<int> &terms);
  json decidersAsJson() const;
  std::vector<int> answered(const Plan &plan) const;

  const Problem &problem;
  ProblemFacts facts;
  Degrees degrees;
  double calls;
  sharding::Mesh mesh;
  CostModel model;
  OpWork work;
  AxisList tensorAxes;
  std::vector<Decider> deciders;
  std::vector<int> deciderOf; ///< by op, -1 for sums of gradients
  std::map<ValueId, int> parameterDecider;
  std::vector<TensorSharding> layouts;
  json transfers = json::array(), tables = json::array();
};

} // namespace

//===-- choices -----------------------------------------------------------===//

static bool splits(const Op &op, FactorId factor) {
  return factor >= 0 && (op.rule.factors[factor].kind == FactorKind::Parallel ||
                         op.rule.factors[factor].kind == FactorKind::Reduction);
}

/// dp splits the batch and cp the sequence, or what is summed over them pends.
OpSharding Statement::pinned(OpId id) const {
  const Op &op = problem.ops[id];
  OpSharding result{std::vector<AxisList>(op.rule.factors.size()), {}};
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
  for (size_t f = 0; f < op.rule.factors.size(); ++f) {
    FactorKind kind = op.rule.factors[f].kind;
    if (kind == FactorKind::Whole || (kind == FactorKind::Rounds && op.keepRounds) ||
        static_cast<FactorId>(f) == facts.batchFactor[id])
      continue;
    result.push_back(start);
    result.back().factors[f].insert(result.back().factors[f].end(), axes.begin(), axes.end());
  }
  for (size_t set = 0; set < op.rule.linear.size(); ++set) {
    result.push_back(start);
    for (sharding::AxisId axis : axes)
      result.back().pending.push_back({axis, static_cast<int>(set)});
  }
}

/// All legal choices of an op; a degree of several axes may be shared between a
/// factor that only the first of them divide and something else.
std::vector<OpSharding> Statement::enumerate(OpId id) const {
  const Op &op = problem.ops[id];
  OpSharding start = pinned(id);
  if (facts.isStatic[id] || tensorAxes.empty())
    return {start};
  std::vector<OpSharding> result;
  place(start, id, tensorAxes, result);
  for (size_t f = 0; f < op.rule.factors.size(); ++f)
    for (size_t count = 1; count < tensorAxes.size(); ++count) {
      AxisList first(tensorAxes.begin(), tensorAxes.begin() + count),
          rest(tensorAxes.begin() + count, tensorAxes.end());
      bool isMost = op.rule.factors[f].size % (mesh.size(first) * mesh.axes[rest[0]].size) != 0;
      FactorKind kind = op.rule.factors[f].kind;
      if (!isMost || kind == FactorKind::Whole || (kind == FactorKind::Rounds && op.keepRounds) ||
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

void Statement::addGroups() {
  Groups groups(problem, facts);
  Layouts planners(mesh, model);
  Choices choices(problem, facts, groups, mesh, planners, work, {});
  deciderOf.assign(problem.ops.size(), -1);
  for (const Group &group : groups.groups) {
    Decider decider;
    decider.ops = group.ops;
    decider.name = "op " + std::to_string(group.ops[0]) + " " + problem.ops[group.ops[0]].name;
    if (group.ops.size() == 1)
      for (OpSharding &choice : enumerate(group.ops[0]))
        decider.choices.push_back({std::move(choice)});
    else
      for (const Effect &effect : choices.effects(group.kind))
        decider.choices.push_back(effect.ops);
    for (const std::vector<OpSharding> &choice : decider.choices) {
      double cost = 0;
      for (size_t i = 0; i < group.ops.size(); ++i)
        cost += work.seconds(group.ops[i], choice[i], mesh);
      decider.costs.push_back(calls * cost);
    }
    for (OpId op : group.ops)
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
      for (const std::vector<int> &list : reader.layouts)
        for (int layout : list)
          if (layouts[layout].partial.empty() &&
              std::find(decider.layouts.begin(), decider.layouts.end(), layouts[layout]) ==
                  decider.layouts.end())
            decider.layouts.push_back(layouts[layout]);
    if (decider.layouts.empty())
      decider.layouts = {TensorSharding::replicated(problem.values[value].shape.size())};
    for (const TensorSharding &layout : decider.layouts) {
      ParameterBytes bytes = parameterBytes(problem, value, layout, mesh,
                                            model.getCluster().software);
      bool trained = facts.gradientResult[value] >= 0;
      decider.costs.push_back(
          trained ? model.streamSeconds(double(bytes.updateTraffic() + bytes.gradient)) +
                        2 * model.launchSeconds()
                  : model.streamSeconds(0));
    }
    parameterDecider[value] = static_cast<int>(deciders.size());
    deciders.push_back(std::move(decider));
  }
}

//===-- layouts of values -------------------------------------------------===//

int Statement::intern(const TensorSharding &layout) {
  auto it = std::find(layouts.begin(), layouts.end(), layout);
  if (it == layouts.end())
    it = layouts.insert(layouts.end(), layout);
  return static_cast<int>(it - layouts.begin());
}

double Statement::seconds(const Value &value, int from, int to) {
  auto steps = sharding::reshard(layouts[from], layouts[to], mesh);
  if (!steps)
    return HUGE_VAL;
  double sum = 0;
  TensorSharding before = layouts[from];
  for (const sharding::ReshardStep &step : *steps) {
    int64_t bytes = sharding::stepBytes(step, before, value.shape, byteSize(value.type), mesh);
    sum += model.collectiveSeconds(step.kind, step.axes, double(bytes), mesh);
    before = step.after;
  }
  return sum;
}

/// Arguments that nothing decides lie as data and context parallelism have them.
TensorSharding Statement::batchLayout(ValueId value) const {
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
    return decider.layouts[choice];
  for (size_t i = 0; i < decider.ops.size(); ++i) {
    const Op &op = problem.ops[decider.ops[i]];
    for (size_t r = 0; r < op.results.size(); ++r)
      if (op.results[r] == value)
        return sharding::resultSharding(op.rule, decider.choices[choice][i], r);
  }
  return {};
}

Part Statement::completed(Part part) {
  for (std::vector<int> &list : part.layouts)
    for (int &layout : list) {
      TensorSharding whole = layouts[layout];
      whole.partial.clear();
      layout = intern(whole);
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
    part.layouts = {{intern(batchLayout(value))}};
    return part;
  }
  const Decider &decider = deciders[part.decider];
  for (size_t choice = 0; choice < decider.costs.size(); ++choice)
    part.layouts.push_back({intern(madeBy(decider, choice, value))});
  return part;
}

/// The layouts in which ops read a value, each decider once.
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

//===-- what they cost ----------------------------------------------------===//

/// Parts of one decider as one.
std::vector<Part> Statement::joined(const std::vector<Part> &parts) const {
  std::vector<Part> result;
  for (const Part &part : parts) {
    auto it = std::find_if(result.begin(), result.end(),
                           [&](const Part &known) { return known.decider == part.decider; });
    if (it == result.end()) {
      result.push_back(part);
      continue;
    }
    for (size_t choice = 0; choice < part.layouts.size(); ++choice)
      it->layouts[choice].insert(it->layouts[choice].end(), part.layouts[choice].begin(),
                                 part.layouts[choice].end());
  }
  for (Part &part : result)
    for (std::vector<int> &list : part.layouts) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
  return result;
}

static json asJson(const Part &part) {
  return {{"decider", part.decider}, {"layouts", part.layouts}};
}

/// Between the hub's layout and each distinct one of the spokes.
void Statement::addTransfer(const Value &value, const Part &hub, std::vector<Part> spokes,
                            bool toHub) {
  spokes = joined(spokes);
  if (spokes.empty())
    return;
  std::set<int> hubs, others;
  for (const std::vector<int> &list : hub.layouts)
    hubs.insert(list.begin(), list.end());
  json entry = {{"hub", asJson(hub)}, {"spokes", json::array()}, {"seconds", json::array()}};
  for (const Part &spoke : spokes) {
    entry["spokes"].push_back(asJson(spoke));
    for (const std::vector<int> &list : spoke.layouts)
      others.insert(list.begin(), list.end());
  }
  for (int from : hubs)
    for (int to : others) {
      double cost = calls * (toHub ? seconds(value, to, from) : seconds(value, from, to));
      entry["seconds"].push_back({from, to, std::isfinite(cost) ? json(cost) : json(nullptr)});
    }
  transfers.push_back(std::move(entry));
}

void Statement::addValue(ValueId value) {
  Part made = maker(value);
  addTransfer(problem.values[value], made, readers(value), false);
  for (const FunctionResult &result : problem.results)
    if (result.value == value && result.kind == ResultKind::Output)
      addTransfer(problem.values[value], made, {completed(made)}, false);
}

/// The terms of a gradient, those of inner sums that only it reads included;
/// what earlier microbatches left is none.
std::vector<ValueId> Statement::termsOf(ValueId total) const {
  if (!isTotal(total))
    return {total};
  std::vector<ValueId> result;
  for (ValueId term : problem.ops[facts.producer[total]].operands) {
    if (term < problem.arguments)
      continue;
    bool inner = facts.gradientOf[term] == facts.gradientOf[total] &&
                 facts.consumers[term].size() == 1;
    for (ValueId leaf : inner ? termsOf(term) : std::vector<ValueId>{term})
      result.push_back(leaf);
  }
  return result;
}

void Statement::addSum(OpId id) {
  const Op &op = problem.ops[id];
  ValueId total = op.results[0], of = facts.gradientOf[total];
  if (of < 0)
    return;
  Part made = maker(total);
  if (made.decider >= 0) {
    json table = {{"deciders", {made.decider}}, {"classes", json::array()}, {"costs", json::array()}};
    std::vector<int> own;
    for (size_t choice = 0; choice < made.layouts.size(); ++choice) {
      own.push_back(static_cast<int>(choice));
      int64_t bytes = localBytes(problem.values[total], layouts[made.layouts[choice][0]], mesh);
      table["costs"].push_back(
          calls * model.streamSeconds(double(op.operands.size() + 1) * double(bytes)));
    }
    table["classes"].push_back(own);
    tables.push_back(std::move(table));
  }
  if (of < problem.arguments)
    return; // see addGradient
  std::vector<Part> terms;
  for (ValueId term : op.operands)
    if (term >= problem.arguments)
      terms.push_back(maker(term));
  addTransfer(problem.values[total], made, terms, true);
}

/// Terms are brought to the parameter's layout, still pending over the axes over
/// which all of them are; that is summed once a step, in buckets.
double Statement::gradientSeconds(const Value &parameter, int layout, const std::set<int> &terms) {
  constexpr double bucketBytes = 25e6;
  TensorSharding target = layouts[layout];
  AxisList axes;
  for (sharding::Partial partial : layouts[*terms.begin()].partial) {
    bool all = std::all_of(terms.begin(), terms.end(),
                           [&](int term) { return layouts[term].isPartial(partial.axis); });
    if (!all || target.splits(partial.axis))
      continue;
    target.partial.push_back(partial);
    axes.push_back(partial.axis);
  }
  double sum = 0;
  int to = intern(target);
  for (int term : terms)
    sum += calls * seconds(parameter, term, to);
  if (!axes.empty())
    sum += model.collectiveSeconds(sharding::StepKind::AllReduce, axes, bucketBytes, mesh) *
           double(localBytes(parameter, target, mesh)) / bucketBytes;
  return sum;
}

void Statement::addGradient(ValueId parameter) {
  int index = facts.gradientResult[parameter];
  if (index < 0)
    return;
  std::vector<Part> parts = {maker(parameter)};
  for (ValueId term : termsOf(problem.results[index].value))
    parts.push_back(maker(term));
  // The parameter's part stays apart from the terms: its decider makes none.
  std::vector<Part> terms = joined({parts.begin() + 1, parts.end()});
  terms.insert(terms.begin(), parts[0]);
  json table = {{"deciders", json::array()}, {"classes", json::array()}, {"costs", json::array()}};
  std::vector<std::vector<std::vector<int>>> distinct;
  for (const Part &part : terms) {
    distinct.emplace_back();
    std::vector<int> classes;
    for (const std::vector<int> &list : part.layouts) {
      auto it = std::find(distinct.back().begin(), distinct.back().end(), list);
      classes.push_back(static_cast<int>(it - distinct.back().begin()));
      if (it == distinct.back().end())
        distinct.back().push_back(list);
    }
    if (part.decider < 0)
      continue;
    table["deciders"].push_back(part.decider);
    table["classes"].push_back(classes);
  }
  size_t combinations = 1;
  for (const auto &list : distinct)
    combinations *= list.size();
  for (size_t combination = 0; combination < combinations; ++combination) {
    size_t rest = combination;
    std::set<int> layoutsOfTerms;
    int layout = -1;
    for (size_t i = terms.size(); i-- > 0; rest /= distinct[i].size()) {
      const std::vector<int> &list = distinct[i][rest % distinct[i].size()];
      if (i == 0)
        layout = list[0];
      else
        layoutsOfTerms.insert(list.begin(), list.end());
    }
    double cost = gradientSeconds(problem.values[parameter], layout, layoutsOfTerms);
    table["costs"].push_back(std::isfinite(cost) ? json(cost) : json(nullptr));
  }
  tables.push_back(std::move(table));
}

//===-- statement ---------------------------------------------------------===//

/// The solver's choice for each decider; -1: none of those stated.
std::vector<int> Statement::answered(const Plan &plan) const {
  std::vector<int> result;
  for (const Decider &decider : deciders) {
    int found = -1;
    for (size_t choice = 0; choice < decider.costs.size() && found < 0; ++choice) {
      bool same = decider.parameter < 0 ||
                  decider.layouts[choice] == plan.arguments.at(decider.parameter);
      for (size_t i = 0; i < decider.ops.size(); ++i)
        same &= decider.choices[choice][i] == plan.ops[decider.ops[i]];
      if (same)
        found = static_cast<int>(choice);
    }
    result.push_back(found);
  }
  return result;
}

json Statement::run(const Solution &solution) {
  addGroups();
  addParameters();
  for (ValueId value = 0; value < static_cast<ValueId>(problem.values.size()); ++value)
    addValue(value);
  for (OpId op = 0; op < static_cast<OpId>(problem.ops.size()); ++op)
    if (problem.ops[op].kind == OpKind::GradientSum)
      addSum(op);
  for (ValueId value = 0; value < problem.arguments; ++value)
    addGradient(value);
  json list = json::array();
  for (const Decider &decider : deciders)
    list.push_back({{"name", decider.name}, {"costs", decider.costs}});
  return {{"deciders", list},
          {"transfers", transfers},
          {"tables", tables},
          {"axes", mesh.axes.size()},
          {"choices", answered(solution.plan)}};
}

static Result<Solution> solveFolded(const StatementCase &given, const ProblemFacts &facts) {
  auto folding = fold(given.problem, facts, findBlocks(given.problem, facts));
  if (!folding)
    return Error{"not folded"};
  ProblemFacts foldedFacts(folding->problem);
  auto found = ShardingSolver(folding->problem, foldedFacts, given.cluster, given.degrees,
                              given.options).solveFolded(*folding);
  if (!found)
    return Error{"not folded"};
  if (*found)
    (*found)->plan = unfold(*folding, given.problem, std::move((*found)->plan));
  return std::move(*found);
}

json stateSharding(const StatementCase &given) {
  ProblemFacts facts(given.problem);
  auto solution = given.folded ? solveFolded(given, facts)
                               : solveSharding(given.problem, facts, given.cluster, given.degrees,
                                               given.options);
  if (!solution)
    return {{"error", solution.error().message}};
  std::vector<Violation> violations = verify(given.problem, solution->plan, given.cluster);
  if (!violations.empty())
    return {{"error", violations[0].message}};
  json result = Statement(given).run(*solution);
  result["seconds"] = solution->seconds;
  result["gap"] = solution->gap;
  result["predicted"] = predict(given.problem, solution->plan, given.cluster).stepSeconds;
  return result;
}

} // namespace dtc::plan::testing
