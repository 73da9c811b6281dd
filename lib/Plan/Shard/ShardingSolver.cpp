#include "dtc/Plan/Shard/ShardingSolver.h"

#include "dtc/Plan/Plan/Settings.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace dtc::plan {

using sharding::AxisId;
using sharding::Mesh;
using sharding::OpSharding;
using sharding::TensorSharding;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

//===-- mesh --------------------------------------------------------------===//

/// Sizes into which tp has to be cut so that factors it doesn't divide can be
/// split by what they have in common, e.g. 2 key-value heads under tp=4.
static std::vector<int64_t> tensorAxisSizes(const Problem &problem, const ProblemFacts &facts,
                                            int64_t tp) {
  std::vector<int64_t> cuts;
  for (size_t id = 0; id < problem.ops.size(); ++id) {
    const Op &op = problem.ops[id];
    if (op.backward || (op.kind != OpKind::Contraction && op.kind != OpKind::Attention))
      continue;
    for (size_t f = 0; f < op.rule->factors.size(); ++f) {
      const sharding::Factor &factor = op.rule->factors[f];
      int64_t common = std::gcd(factor.size, tp);
      bool splits = factor.kind == sharding::FactorKind::Parallel ||
                    factor.kind == sharding::FactorKind::Reduction;
      bool isOthers = static_cast<int>(f) == facts.batchFactor[id] ||
                      (op.groupedExperts >= 0 && (static_cast<int>(f) == op.groupedExperts ||
                                          static_cast<int>(f) == facts.sequenceSplit[id]));
      if (splits && !isOthers && common > 1 && common < tp)
        cuts.push_back(common);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.push_back(tp);
  std::vector<int64_t> sizes;
  int64_t product = 1;
  for (int64_t cut : cuts) {
    // A cut that is no multiple of the ones before cannot be had in this order.
    if (cut % product != 0 || cut == product)
      continue;
    sizes.push_back(cut / product);
    product = cut;
  }
  return sizes;
}

Mesh makeMesh(const Problem &problem, const ProblemFacts &facts, const Degrees &degrees) {
  Mesh mesh;
  if (degrees.dp > 1 && degrees.zeroGroup > 1 && degrees.zeroGroup < degrees.dp) {
    mesh.axes.push_back({"dp.0", "dp", degrees.dp / degrees.zeroGroup});
    mesh.axes.push_back({"dp.1", "dp", degrees.zeroGroup});
  } else if (degrees.dp > 1) {
    mesh.axes.push_back({"dp", "dp", degrees.dp});
  }
  if (degrees.ep > 1)
    mesh.axes.push_back({"ep", "ep", degrees.ep});
  if (degrees.cp > 1)
    mesh.axes.push_back({"cp", "cp", degrees.cp});
  if (degrees.tp > 1) {
    std::vector<int64_t> sizes = tensorAxisSizes(problem, facts, degrees.tp);
    for (size_t i = 0; i < sizes.size(); ++i)
      mesh.axes.push_back({sizes.size() == 1 ? "tp" : "tp." + std::to_string(i), "tp", sizes[i]});
  }
  if (!hasDefaultPlacement(degrees))
    setStrides(mesh, stridesOf(degrees));
  return mesh;
}

//===-- network -----------------------------------------------------------===//

static Mesh meshFor(const Problem &problem, const ProblemFacts &facts, const Degrees &degrees,
                    const SolverOptions &options) {
  Mesh mesh = makeMesh(problem, facts, degrees);
  if (options.strides)
    setStrides(mesh, *options.strides);
  return mesh;
}

static Degrees withSequence(Degrees degrees, std::optional<bool> sequenceParallel) {
  degrees.sp = sequenceParallel.value_or(degrees.sp);
  return degrees;
}

static SolverOptions filled(SolverOptions options, const Problem &problem, const Degrees &degrees) {
  options.secondsPerByte = 0;
  if (!options.devices)
    options.devices = degrees.devices();
  if (!options.numMicrobatches)
    options.numMicrobatches = problem.numMicrobatches;
  options.strides.reset(); // the mesh has them
  return options;
}

ShardingConditions::ShardingConditions(const Problem &problem, const ProblemFacts &facts,
                                       const Degrees &degrees, const SolverOptions &options)
    : mesh(meshFor(problem, facts, degrees, options)), tensorWeights(degrees.tensorWeights),
      contextExchange(degrees.contextExchange),
      sp(withSequence(degrees, options.sequenceParallel).sp),
      options(filled(options, problem, degrees)) {}

ShardingSolver::ShardingSolver(const Problem &problem, const ProblemFacts &facts,
                               const Cluster &cluster, const Degrees &degrees,
                               const SolverOptions &options, std::shared_ptr<const OpBundles> given,
                               const Folding *folding)
    : problem(problem), facts(facts), degrees(withSequence(degrees, options.sequenceParallel)),
      secondsPerByte(options.secondsPerByte), conditions(problem, facts, degrees, options),
      forced(conditions.options.forced),
      numMicrobatches(double(conditions.options.numMicrobatches)), mesh(conditions.mesh),
      model(cluster, conditions.options.devices), work(problem, facts, model),
      shardings(mesh, model),
      ownBundles(given ? std::move(given) : std::make_shared<const OpBundles>(problem, facts)),
      bundles(*ownBundles),
      choices(problem, facts, bundles, mesh, shardings, work, options.sequenceParallel,
              degrees.tensorWeights, degrees.contextExchange),
      folding(folding) {}

ShardingId ShardingSolver::complete(ShardingId sharding) {
  TensorSharding whole = shardings[sharding];
  whole.partial.clear();
  return shardings.intern(whole);
}

/// A variable about an op, or about a value.
CostNetwork::Variable ShardingSolver::addVariable(size_t choices, OpId op, ValueId value) {
  if (folding)
    variableHome.push_back(op >= 0 ? folding->opHome[op] : folding->valueHome[value]);
  return network.addVariable(static_cast<int>(choices));
}

/// The first op that can't be sharded at all is returned, or -1.
std::vector<OpSharding> ShardingSolver::choicesOf(OpId op) {
  std::vector<OpSharding> result;
  int bundle = bundles.bundleOf[op];
  if (bundle < 0 || bundles.bundles[bundle].ops[0] != op)
    return result;
  for (const ChoiceOutcome &outcome : choices.outcomes(bundles.bundles[bundle].kind))
    if (std::find(result.begin(), result.end(), outcome.ops[0]) == result.end())
      result.push_back(outcome.ops[0]);
  return result;
}

/// Whether something else was decided beforehand.
bool ShardingSolver::isForbidden(const OpBundle &bundle, const ChoiceOutcome &outcome) const {
  return forced && bundle.ops[0] == forced->op && !(outcome.ops[0] == forced->sharding);
}

OpId ShardingSolver::addBundles() {
  for (const OpBundle &bundle : bundles.bundles) {
    const std::vector<ChoiceOutcome> &outcomes = choices.outcomes(bundle.kind);
    if (outcomes.empty())
      return bundle.ops[0];
    int variable = addVariable(outcomes.size(), bundle.ops[0], -1);
    bundleVariable.push_back(variable);
    std::vector<double> seconds, bytes;
    for (const ChoiceOutcome &outcome : outcomes) {
      seconds.push_back(isForbidden(bundle, outcome) ? kInfinity
                                                     : numMicrobatches * outcome.seconds);
      bytes.push_back(outcome.bytes);
    }
    addHeld(variable, std::move(seconds), std::move(bytes));
  }
  return -1;
}

/// A term that costs seconds, and bytes by their price.
void ShardingSolver::addHeld(CostNetwork::Variable variable, std::vector<double> seconds,
                             std::vector<double> bytes) {
  std::vector<int> own(seconds.size());
  std::iota(own.begin(), own.end(), 0);
  const int term = network.addTerm({variable}, {own}, seconds);
  held.push_back({term, std::move(seconds), std::move(bytes)});
}

CostNetwork ShardingSolver::networkAt(double price) const {
  CostNetwork result = network;
  for (const HeldTerm &one : held) {
    std::vector<double> costs = one.seconds;
    for (size_t choice = 0; choice < costs.size(); ++choice)
      costs[choice] += price * one.bytes[choice];
    result.setCosts(one.term, std::move(costs));
  }
  return result;
}

int ShardingSolver::localOf(OpId op, ValueId value) const {
  const std::vector<ValueId> &values = bundles.bundles[bundles.bundleOf[op]].values;
  return static_cast<int>(std::find(values.begin(), values.end(), value) - values.begin());
}

/// What decides the sharding in which a value exists. A sum of gradients exists
/// as the value whose gradient it is.
ShardingSolver::Member ShardingSolver::maker(ValueId value) {
  Member member;
  if (auto it = parameters.find(value); it != parameters.end())
    return it->second;
  OpId producer = facts.producer[value];
  int bundle = producer >= 0 ? bundles.bundleOf[producer] : -1;
  if (bundle >= 0) {
    member.type = Member::BundleMember;
    member.variable = bundleVariable[bundle];
    member.kind = bundles.bundles[bundle].kind;
    member.made = Tensor{localOf(producer, value), false};
    return member;
  }
  ValueId of = facts.gradientOf[value];
  if (producer >= 0 && of >= 0 && problem.ops[producer].kind == OpKind::GradientSum) {
    member = maker(of);
    if (member.type == Member::BundleMember)
      member.made->complete = true;
    return member;
  }
  TensorSharding fixed = choices.batchSharding(value);
  fixed.partial.clear();
  member.kind = shardings.intern(fixed);
  member.made = Tensor{};
  return member;
}

ShardingSolver::Member ShardingSolver::term(ValueId value) {
  Member member = maker(value);
  member.terms = {*member.made};
  member.made.reset();
  return member;
}

/// Adds a member; parts of one variable become one member.
void ShardingSolver::join(std::vector<Member> &members, Member member) const {
  for (Member &present : members) {
    if (member.type == Member::Fixed || present.variable != member.variable)
      continue;
    if (member.made)
      present.made = member.made;
    present.terms.insert(present.terms.end(), member.terms.begin(), member.terms.end());
    if (member.read >= 0)
      present.read = member.read;
    return;
  }
  members.push_back(std::move(member));
}

std::vector<ShardingSolver::View> ShardingSolver::views(const Member &member) {
  auto view = [&](auto shardingOfTensor, const std::vector<ShardingId> *read) {
    View result;
    if (member.made)
      result.made = shardingOfTensor(*member.made);
    for (const Tensor &tensor : member.terms)
      result.terms.push_back(shardingOfTensor(tensor));
    if (read)
      result.read = *read;
    return result;
  };
  if (member.type == Member::Fixed)
    return {view([&](const Tensor &) { return ShardingId(member.kind); }, nullptr)};
  std::vector<View> result;
  if (member.type == Member::SharedMember) {
    for (ShardingId sharding : domains[member.kind]) {
      std::vector<ShardingId> read = {sharding};
      result.push_back(
          view([&](const Tensor &) { return sharding; }, member.read >= 0 ? &read : nullptr));
    }
    return result;
  }
  for (const ChoiceOutcome &outcome : choices.outcomes(member.kind)) {
    auto shardingOfTensor = [&](const Tensor &tensor) {
      ShardingId sharding = outcome.produced[tensor.local];
      return tensor.complete ? complete(sharding) : sharding;
    };
    result.push_back(
        view(shardingOfTensor, member.read >= 0 ? &outcome.required[member.read] : nullptr));
  }
  return result;
}

size_t ShardingSolver::viewCount(const Member &member) {
  if (member.type == Member::Fixed)
    return 1;
  return member.type == Member::SharedMember ? domains[member.kind].size()
                                             : choices.outcomes(member.kind).size();
}

ShardingSolver::PricedTerm ShardingSolver::priceTerm(const Value &value,
                                                     const std::vector<Member> &members,
                                                     Price price) {
  std::vector<std::vector<int>> classes;
  std::vector<std::vector<View>> distinct;
  size_t combinations = 1;
  for (const Member &member : members) {
    std::map<View, int> ids;
    std::vector<int> classOf;
    distinct.emplace_back();
    for (View &view : views(member)) {
      auto [it, isNew] = ids.try_emplace(view, static_cast<int>(ids.size()));
      if (isNew)
        distinct.back().push_back(view);
      classOf.push_back(it->second);
    }
    combinations *= distinct.back().size();
    if (classOf.size() > 1)
      classes.push_back(std::move(classOf));
  }
  std::vector<const View *> at;
  for (const std::vector<View> &list : distinct)
    at.push_back(list.data());
  std::vector<double> costs;
  costs.reserve(combinations);
  while (costs.size() < combinations) {
    costs.push_back((this->*price)(value, at));
    for (size_t i = members.size(); i-- > 0; at[i] = distinct[i].data())
      if (++at[i] != distinct[i].data() + distinct[i].size())
        break;
  }
  double first = costs[0];
  return {network.intern(classes, std::move(costs)), first};
}

/// How often a term of the folded problem is in the whole one.
int ShardingSolver::timesOf(const std::vector<Member> &members) const {
  int home = -1;
  for (const Member &member : members)
    if (folding && member.variable >= 0)
      home = std::max(home, variableHome[member.variable]);
  return folding && home == folding->repeated ? folding->copies : 1;
}

/// Adds a term over the members' variables; the same term of another layer is
/// priced once.
void ShardingSolver::addTerm(const Value &value, const std::vector<Member> &members, Price price,
                             int tag) {
  std::vector<int64_t> key = {tag, byteSize(value.type), value.trainable};
  key.insert(key.end(), value.shape.begin(), value.shape.end());
  std::vector<Member> anonymous = members;
  std::vector<int> scope;
  for (Member &member : anonymous) {
    if (viewCount(member) > 1)
      scope.push_back(member.variable);
    member.variable = -1;
  }
  auto [it, isNew] = priced.try_emplace({std::move(key), std::move(anonymous)});
  if (isNew)
    it->second = priceTerm(value, members, price);
  if (scope.empty())
    fixedSeconds += timesOf(members) * it->second.seconds;
  else
    network.addTerm(std::move(scope), it->second.costs);
}

//===-- solution ----------------------------------------------------------===//

/// As `addBundles`.
OpId ShardingSolver::build() {
  if (OpId op = addBundles(); op >= 0)
    return op;
  for (ValueId value = 0; value < problem.arguments; ++value)
    if (problem.values[value].kind == ValueKind::Parameter)
      addParameter(value);
  for (ValueId value = 0; value < static_cast<ValueId>(problem.values.size()); ++value)
    addReaders(value);
  for (OpId op = 0; op < static_cast<OpId>(problem.ops.size()); ++op)
    if (problem.ops[op].kind == OpKind::GradientSum)
      addSum(op);
  for (ValueId value = 0; value < problem.arguments; ++value)
    addParameterGradient(value);
  for (const FunctionResult &result : problem.results)
    if (result.kind == ResultKind::Output)
      addOutput(result.value);
  return -1;
}

OpId ShardingSolver::buildOnce() {
  if (!built)
    built = build();
  return *built;
}

/// What ops are divided by. Nothing else of the plan is known: pipelines and levels of ZeRO share
/// what is solved.
static std::string divisionText(const Degrees &degrees) {
  std::string text;
  for (const Setting *setting :
       {&settingOf(&Degrees::dp), &settingOf(&Degrees::tp), &settingOf(&Degrees::cp),
        &settingOf(&Degrees::ep), &settingOf(&Degrees::sp), &settingOf(&Degrees::contextExchange)})
    if (!hasDefault(*setting, degrees))
      text += (text.empty() ? "" : " ") + settingText(*setting, degrees);
  return text.empty() ? "one rank" : text;
}

Error ShardingSolver::illegal(OpId op) const {
  return {"no legal sharding of " + problem.ops[op].name + " (" + problem.ops[op].location +
              ") for " + divisionText(degrees),
          ErrorCategory::NoFit};
}

Result<Solution> ShardingSolver::solution(const CostNetwork::Solution &found) {
  double cost = found.cost + fixedSeconds, bound = found.bound + fixedSeconds;
  if (!(cost < kInfinity))
    return Error{"no legal sharding for " + divisionText(degrees), ErrorCategory::NoFit};
  Solution solution;
  solution.seconds = cost;
  if (cost > bound * (1 + 1e-9))
    solution.gap = (cost - bound) / bound;
  solution.plan = assemble(found.choices);
  return solution;
}

Result<Solution> ShardingSolver::solve(double price) {
  if (OpId op = buildOnce(); op >= 0)
    return illegal(op);
  return solution(networkAt(price).solve(conditions.options.tableLimit));
}

std::optional<Result<Solution>> ShardingSolver::solveFolded(double price) {
  if (OpId op = buildOnce(); op >= 0)
    return illegal(op);
  auto found = networkAt(price).solveChain({variableHome, folding->repeated, folding->copies},
                                           conditions.options.tableLimit);
  if (!found)
    return std::nullopt;
  return solution(*found);
}

Result<Solution> solveSharding(const Problem &problem, const ProblemFacts &facts,
                               const Cluster &cluster, const Degrees &degrees,
                               const SolverOptions &options) {
  Result<Solution> solution = ShardingSolver(problem, facts, cluster, degrees, options).solve();
  if (solution) {
    Plan &plan = solution->plan;
    plan.stages[0].devices = devicesOf(plan.degrees, plan.mesh, 0);
  }
  return solution;
}

} // namespace dtc::plan
