#include "ShardingSolver.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace dtc::plan {

using sharding::AxisId;
using sharding::Mesh;
using sharding::OpSharding;
using sharding::TensorSharding;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Values with more combinations of layouts get a variable of their own.
static constexpr size_t kMaxCombinations = 1 << 13;
/// Gradients are summed in buckets of about this size.
static constexpr double kBucketBytes = 25e6;

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
    for (size_t f = 0; f < op.rule.factors.size(); ++f) {
      const sharding::Factor &factor = op.rule.factors[f];
      int64_t common = std::gcd(factor.size, tp);
      bool splits = factor.kind == sharding::FactorKind::Parallel ||
                    factor.kind == sharding::FactorKind::Reduction;
      if (splits && static_cast<int>(f) != facts.batchFactor[id] && common > 1 && common < tp)
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
  if (degrees.dp > 1)
    mesh.axes.push_back({"dp", "dp", degrees.dp});
  if (degrees.tp > 1) {
    std::vector<int64_t> sizes = tensorAxisSizes(problem, facts, degrees.tp);
    for (size_t i = 0; i < sizes.size(); ++i)
      mesh.axes.push_back({sizes.size() == 1 ? "tp" : "tp." + std::to_string(i), "tp", sizes[i]});
  }
  return mesh;
}

//===-- network -----------------------------------------------------------===//

ShardingSolver::ShardingSolver(const Problem &problem, const ProblemFacts &facts,
                               const Cluster &cluster, const Degrees &degrees,
                               std::optional<bool> sequenceParallel, double secondsPerByte)
    : problem(problem), facts(facts), degrees(degrees), secondsPerByte(secondsPerByte),
      mesh(makeMesh(problem, facts, degrees)), model(cluster, degrees.devices()),
      work(problem, facts, model), layouts(mesh, model), groups(problem, facts),
      choices(problem, facts, groups, mesh, layouts, work, sequenceParallel) {}

LayoutId ShardingSolver::complete(LayoutId layout) {
  TensorSharding sharding = layouts[layout];
  sharding.partial.clear();
  return layouts.intern(sharding);
}

void ShardingSolver::addGroups() {
  for (const Group &group : groups.groups) {
    const std::vector<Effect> &effects = choices.effects(group.kind);
    int variable = network.addVariable(static_cast<int>(effects.size()));
    groupVariable.push_back(variable);
    std::vector<int> own(effects.size());
    std::iota(own.begin(), own.end(), 0);
    std::vector<double> costs;
    for (const Effect &effect : effects)
      costs.push_back(double(problem.numMicrobatches) * effect.seconds +
                      secondsPerByte * effect.bytes);
    network.addTerm({variable}, {own}, costs);
  }
}

int ShardingSolver::localOf(OpId op, ValueId value) const {
  const std::vector<ValueId> &values = groups.groups[groups.groupOf[op]].values;
  return static_cast<int>(std::find(values.begin(), values.end(), value) - values.begin());
}

/// What decides the layout in which a value exists. A sum of gradients exists
/// as the value whose gradient it is.
ShardingSolver::Member ShardingSolver::maker(ValueId value) {
  Member member;
  if (auto it = parameters.find(value); it != parameters.end())
    return it->second;
  OpId producer = facts.producer[value];
  int group = producer >= 0 ? groups.groupOf[producer] : -1;
  if (group >= 0) {
    member.type = Member::GroupMember;
    member.variable = groupVariable[group];
    member.kind = groups.groups[group].kind;
    member.made = Tensor{localOf(producer, value), false};
    return member;
  }
  ValueId of = facts.gradientOf[value];
  if (producer >= 0 && of >= 0 && problem.ops[producer].kind == OpKind::GradientSum) {
    member = maker(of);
    if (member.type == Member::GroupMember)
      member.made->complete = true;
    return member;
  }
  TensorSharding fixed = choices.batchLayout(value);
  fixed.partial.clear();
  member.kind = layouts.intern(fixed);
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
  auto view = [&](auto layoutOfTensor, const std::vector<LayoutId> *read) {
    View result;
    if (member.made)
      result.made = layoutOfTensor(*member.made);
    for (const Tensor &tensor : member.terms)
      result.terms.push_back(layoutOfTensor(tensor));
    if (read)
      result.read = *read;
    return result;
  };
  if (member.type == Member::Fixed)
    return {view([&](const Tensor &) { return LayoutId(member.kind); }, nullptr)};
  std::vector<View> result;
  if (member.type == Member::LayoutMember) {
    for (LayoutId layout : domains[member.kind]) {
      std::vector<LayoutId> read = {layout};
      result.push_back(
          view([&](const Tensor &) { return layout; }, member.read >= 0 ? &read : nullptr));
    }
    return result;
  }
  for (const Effect &effect : choices.effects(member.kind)) {
    auto layoutOfTensor = [&](const Tensor &tensor) {
      LayoutId layout = effect.produced[tensor.local];
      return tensor.complete ? complete(layout) : layout;
    };
    result.push_back(
        view(layoutOfTensor, member.read >= 0 ? &effect.required[member.read] : nullptr));
  }
  return result;
}

ShardingSolver::PricedTerm ShardingSolver::priceTerm(const Value &value,
                                                     const std::vector<Member> &members,
                                                     Price price) {
  PricedTerm result;
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
      result.classes.push_back(std::move(classOf));
  }
  std::vector<const View *> at(members.size());
  for (size_t index = 0; index < combinations; ++index) {
    size_t rest = index;
    for (size_t i = members.size(); i-- > 0; rest /= distinct[i].size())
      at[i] = &distinct[i][rest % distinct[i].size()];
    result.costs.push_back((this->*price)(value, at));
  }
  return result;
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
    if (views(member).size() > 1)
      scope.push_back(member.variable);
    member.variable = -1;
  }
  if (scope.empty())
    return;
  auto [it, isNew] = priced.try_emplace({std::move(key), std::move(anonymous)});
  if (isNew)
    it->second = priceTerm(value, members, price);
  network.addTerm(scope, it->second.classes, it->second.costs);
}

//===-- readers of a value ------------------------------------------------===//

static void keepDistinct(std::vector<LayoutId> &list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

static LayoutId madeBy(const std::vector<const ShardingSolver::View *> &views) {
  for (const ShardingSolver::View *view : views)
    if (view->made >= 0)
      return view->made;
  return -1;
}

/// Every distinct layout that is read is made once.
double ShardingSolver::priceReaders(const Value &value, const std::vector<const View *> &views) {
  LayoutId made = madeBy(views);
  std::vector<LayoutId> wanted;
  for (const View *view : views)
    wanted.insert(wanted.end(), view->read.begin(), view->read.end());
  keepDistinct(wanted);
  double seconds = 0;
  for (LayoutId layout : wanted)
    seconds += layouts.reshardSeconds(value, made, layout);
  return double(problem.numMicrobatches) * seconds;
}

/// A variable whose choices are the layouts of `domain`.
ShardingSolver::Member ShardingSolver::addLayoutVariable(std::vector<LayoutId> domain) {
  keepDistinct(domain);
  auto [it, isNew] = domainIds.try_emplace(domain, static_cast<int>(domains.size()));
  if (isNew)
    domains.push_back(domain);
  Member member;
  member.type = Member::LayoutMember;
  member.variable = network.addVariable(static_cast<int>(domain.size()));
  member.kind = it->second;
  return member;
}

bool ShardingSolver::isSmall(const std::vector<Member> &members) {
  size_t combinations = 1;
  for (const Member &member : members) {
    std::vector<View> all = views(member);
    std::sort(all.begin(), all.end());
    combinations *= std::unique(all.begin(), all.end()) - all.begin();
    if (combinations > kMaxCombinations)
      return false;
  }
  return true;
}

/// The layout in which all members meet: any in which one of them has the value.
ShardingSolver::Member ShardingSolver::addShared(const Value &value,
                                                 const std::vector<Member> &members) {
  std::vector<LayoutId> domain;
  for (const Member &member : members)
    for (const View &view : views(member)) {
      if (view.made >= 0)
        domain.push_back(view.made);
      domain.insert(domain.end(), view.terms.begin(), view.terms.end());
      domain.insert(domain.end(), view.read.begin(), view.read.end());
    }
  return addLayoutVariable(std::move(domain));
}

void ShardingSolver::addReaders(ValueId id) {
  std::vector<Member> members = {maker(id)};
  OpId producer = facts.producer[id];
  if (producer >= 0 && groups.groupOf[producer] >= 0)
    members[0].read = members[0].made->local;
  for (OpId consumer : facts.consumers[id]) {
    int group = groups.groupOf[consumer];
    if (group < 0)
      continue;
    Member reader;
    reader.type = Member::GroupMember;
    reader.variable = groupVariable[group];
    reader.kind = groups.groups[group].kind;
    reader.read = localOf(consumer, id);
    join(members, reader);
  }
  const Value &value = problem.values[id];
  // What comes in one layout whatever is chosen (data, tables) is laid out so
  // that readers take their parts for themselves.
  if (views(members[0]).size() == 1) {
    for (size_t i = 1; i < members.size(); ++i)
      addTerm(value, {members[0], members[i]}, &ShardingSolver::priceReaders, 0);
    return;
  }
  if (members.size() <= 2 || isSmall(members)) {
    addTerm(value, members, &ShardingSolver::priceReaders, 0);
    return;
  }
  Member shared = addShared(value, members);
  Member asReader = shared, asMaker = shared;
  asReader.read = 0;
  asMaker.made = Tensor{};
  addTerm(value, {members[0], asReader}, &ShardingSolver::priceReaders, 0);
  for (size_t i = 1; i < members.size(); ++i)
    addTerm(value, {asMaker, members[i]}, &ShardingSolver::priceReaders, 0);
}

//===-- sums of gradients -------------------------------------------------===//

/// The terms of a sum, those of inner sums of the same gradient included; what
/// earlier microbatches summed up isn't one.
std::vector<ValueId> ShardingSolver::leafTerms(ValueId total) const {
  OpId producer = facts.producer[total];
  if (producer < 0 || problem.ops[producer].kind != OpKind::GradientSum)
    return {total};
  std::vector<ValueId> result;
  for (ValueId operand : problem.ops[producer].operands) {
    if (operand < problem.arguments)
      continue;
    bool inner = facts.producer[operand] >= 0 &&
                 facts.gradientOf[operand] == facts.gradientOf[total] &&
                 facts.consumers[operand].size() == 1;
    std::vector<ValueId> terms = inner ? leafTerms(operand) : std::vector<ValueId>{operand};
    result.insert(result.end(), terms.begin(), terms.end());
  }
  return result;
}

/// Terms of equal layout are added first, then brought to the sum's layout.
double ShardingSolver::priceTerms(const Value &value, const std::vector<const View *> &views) {
  LayoutId target = madeBy(views);
  std::vector<LayoutId> terms;
  for (const View *view : views)
    terms.insert(terms.end(), view->terms.begin(), view->terms.end());
  keepDistinct(terms);
  double seconds = 0;
  for (LayoutId layout : terms)
    seconds += layouts.reshardSeconds(value, layout, target);
  return double(problem.numMicrobatches) * seconds;
}

/// Reading two terms and writing their sum.
double ShardingSolver::priceAddition(const Value &value, const std::vector<const View *> &views) {
  double bytes = 3 * double(localBytes(value, layouts[madeBy(views)], mesh));
  return double(problem.numMicrobatches) * model.streamSeconds(bytes);
}

void ShardingSolver::addSum(OpId op) {
  ValueId total = problem.ops[op].results[0];
  ValueId of = facts.gradientOf[total];
  if (of < 0 || of < problem.arguments)
    return; // a loss, or the gradient of a parameter: see addParameterGradient
  const Value &value = problem.values[total];
  std::vector<Member> members = {maker(total)};
  for (ValueId operand : problem.ops[op].operands)
    if (operand >= problem.arguments)
      join(members, term(operand));
  addTerm(value, {members[0]}, &ShardingSolver::priceAddition, 4);
  if (members.size() <= 2 || isSmall(members)) {
    addTerm(value, members, &ShardingSolver::priceTerms, 1);
    return;
  }
  Member shared = addShared(value, members);
  Member asTerm = shared, asTotal = shared;
  asTerm.terms = {Tensor{}};
  asTotal.made = Tensor{};
  addTerm(value, {members[0], asTerm}, &ShardingSolver::priceTerms, 1);
  for (size_t i = 1; i < members.size(); ++i)
    addTerm(value, {asTotal, members[i]}, &ShardingSolver::priceTerms, 1);
}

//===-- parameters --------------------------------------------------------===//

/// A parameter's choices are the layouts in which any reader may want it.
void ShardingSolver::addParameter(ValueId value) {
  const Value &parameter = problem.values[value];
  std::vector<LayoutId> wanted;
  for (OpId consumer : facts.consumers[value])
    if (int group = groups.groupOf[consumer]; group >= 0)
      for (const Effect &effect : choices.effects(groups.groups[group].kind))
        for (LayoutId layout : effect.required[localOf(consumer, value)])
          if (layouts[layout].partial.empty())
            wanted.push_back(layout);
  if (wanted.empty())
    wanted.push_back(layouts.intern(TensorSharding::replicated(parameter.shape.size())));
  Member member = addLayoutVariable(std::move(wanted));
  member.made = Tensor{};
  parameters[value] = member;
  const std::vector<LayoutId> &domain = domains[member.kind];
  std::vector<int> own(domain.size());
  std::iota(own.begin(), own.end(), 0);
  std::vector<double> costs;
  for (LayoutId layout : domain) {
    ParameterBytes bytes = parameterBytes(problem, value, layouts[layout], mesh);
    double moved = parameter.trainable ? double(bytes.updateTraffic()) : 0;
    costs.push_back(model.streamSeconds(moved) + secondsPerByte * double(bytes.resident()));
  }
  network.addTerm({member.variable}, {own}, costs);
}

/// How a parameter's gradient leaves the function: laid out as the parameter,
/// pending over the axes over which all terms are.
LayoutId ShardingSolver::accumulated(LayoutId parameter, const std::vector<LayoutId> &terms) {
  TensorSharding result = layouts[parameter];
  for (const sharding::Partial &partial : layouts[terms[0]].partial)
    if (!result.splits(partial.axis) &&
        std::all_of(terms.begin(), terms.end(), [&](LayoutId term) {
          const auto &list = layouts[term].partial;
          return std::find(list.begin(), list.end(), partial) != list.end();
        }))
      result.partial.push_back(partial);
  return layouts.intern(result);
}

/// The sum over the axes still pending, as a share of a bucket's.
double ShardingSolver::onceAStep(const Value &parameter, LayoutId gradient) {
  sharding::AxisList axes;
  for (const sharding::Partial &partial : layouts[gradient].partial)
    axes.push_back(partial.axis);
  if (axes.empty())
    return 0;
  double bucket = model.collectiveSeconds(sharding::StepKind::AllReduce, axes, kBucketBytes, mesh);
  return bucket * double(localBytes(parameter, layouts[gradient], mesh)) / kBucketBytes;
}

double ShardingSolver::priceGradient(const Value &value, const std::vector<const View *> &views) {
  LayoutId parameter = madeBy(views);
  std::vector<LayoutId> terms;
  for (const View *view : views)
    terms.insert(terms.end(), view->terms.begin(), view->terms.end());
  keepDistinct(terms);
  LayoutId target = accumulated(parameter, terms);
  double seconds = 0;
  for (LayoutId layout : terms)
    seconds += layouts.reshardSeconds(value, layout, target);
  return double(problem.numMicrobatches) * seconds + onceAStep(value, target);
}

void ShardingSolver::addParameterGradient(ValueId parameter) {
  int index = facts.gradientResult[parameter];
  if (index < 0)
    return;
  std::vector<Member> members = {maker(parameter)};
  for (ValueId value : leafTerms(problem.results[index].value))
    join(members, term(value));
  addTerm(problem.values[parameter], members, &ShardingSolver::priceGradient, 2);
}

double ShardingSolver::priceOutput(const Value &value, const std::vector<const View *> &views) {
  LayoutId made = madeBy(views);
  return double(problem.numMicrobatches) * layouts.reshardSeconds(value, made, complete(made));
}

/// An output of the model leaves the function complete.
void ShardingSolver::addOutput(ValueId value) {
  addTerm(problem.values[value], {maker(value)}, &ShardingSolver::priceOutput, 3);
}

//===-- solution ----------------------------------------------------------===//

Result<Solution> ShardingSolver::solve() {
  addGroups();
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
  CostNetwork::Solution found = network.solve();
  if (!(found.cost < kInfinity))
    return Error{"no legal sharding for " + summary(degrees), 4};
  Solution solution;
  solution.seconds = found.cost;
  if (found.cost > found.bound * (1 + 1e-9))
    solution.gap = (found.cost - found.bound) / found.bound;
  solution.plan = assemble(found.choices);
  return solution;
}

ShardingSolver::View ShardingSolver::viewOf(const Member &member,
                                            const std::vector<int> &chosen) {
  return views(member)[member.type == Member::Fixed ? 0 : chosen[member.variable]];
}

/// The choice by which an op of one factor a dimension makes this layout.
static OpSharding sumSharding(const Op &op, const TensorSharding &layout) {
  OpSharding result{std::vector<sharding::AxisList>(op.rule.factors.size()), {}};
  for (size_t dim = 0; dim < layout.dims.size(); ++dim)
    for (sharding::FactorId factor : op.rule.results[0][dim])
      result.factors[factor] = layout.dims[dim];
  for (size_t set = 0; set < op.rule.linear.size(); ++set)
    if (op.rule.linear[set].size() == op.operands.size()) {
      for (const sharding::Partial &partial : layout.partial)
        result.pending.push_back({partial.axis, static_cast<int>(set)});
      break;
    }
  return result;
}

/// A sum is made in its value's layout, unless all terms are alike and nothing
/// but the value's own group reads it: then it stays as they are and is brought
/// there by its readers.
void ShardingSolver::assembleSum(OpId id, const std::vector<int> &chosen, Plan &plan) {
  const Op &op = problem.ops[id];
  ValueId total = op.results[0], of = facts.gradientOf[total];
  std::vector<LayoutId> terms;
  for (ValueId value : op.operands)
    if (value >= problem.arguments)
      terms.push_back(layoutOf[value]);
  keepDistinct(terms);
  bool readBySum = std::any_of(
      facts.consumers[total].begin(), facts.consumers[total].end(),
      [&](OpId reader) { return problem.ops[reader].kind == OpKind::GradientSum; });
  LayoutId layout = -1;
  if (of >= 0 && of < problem.arguments) {
    std::vector<LayoutId> leaves;
    int index = facts.gradientResult[of];
    for (ValueId value : leafTerms(index >= 0 ? problem.results[index].value : total))
      leaves.push_back(layoutOf[value]);
    layout = accumulated(layoutOf[of], leaves);
  } else if (of < 0 || (terms.size() == 1 && !readBySum)) {
    layout = terms.empty() ? viewOf(maker(total), chosen).made : terms[0];
  } else {
    layout = viewOf(maker(total), chosen).made;
  }
  plan.ops[id] = sumSharding(op, layouts[layout]);
  layoutOf[total] = layouts.intern(sharding::resultSharding(op.rule, plan.ops[id], 0));
}

void ShardingSolver::assembleArguments(const std::vector<int> &chosen, Plan &plan) {
  for (ValueId value = 0; value < problem.arguments; ++value) {
    plan.arguments[value] = layouts[layoutOf[value]];
    const Value &argument = problem.values[value];
    if (argument.kind == ValueKind::Parameter && argument.trainable)
      plan.storage.push_back({argument.name, layouts[layoutOf[value]], {}, {}, {}});
  }
  // What earlier microbatches summed up is laid out as the sum that takes it in.
  for (size_t id = 0; id < problem.ops.size(); ++id)
    for (size_t i = 0; i < problem.ops[id].operands.size(); ++i)
      if (ValueId value = problem.ops[id].operands[i];
          problem.values[value].kind == ValueKind::Accumulator)
        plan.arguments[value] =
            sharding::operandSharding(problem.ops[id].rule, plan.ops[id], i);
}

Plan ShardingSolver::assemble(const std::vector<int> &chosen) {
  Plan plan;
  plan.degrees = degrees;
  plan.mesh = mesh;
  plan.ops.resize(problem.ops.size());
  layoutOf.assign(problem.values.size(), -1);
  for (ValueId value = 0; value < problem.arguments; ++value)
    layoutOf[value] = viewOf(maker(value), chosen).made;
  for (size_t g = 0; g < groups.groups.size(); ++g) {
    const Group &group = groups.groups[g];
    const Effect &effect = choices.effects(group.kind)[chosen[groupVariable[g]]];
    for (size_t i = 0; i < group.ops.size(); ++i)
      plan.ops[group.ops[i]] = effect.ops[i];
    for (size_t i = 0; i < group.values.size(); ++i)
      if (effect.produced[i] >= 0)
        layoutOf[group.values[i]] = effect.produced[i];
  }
  OpId lastForward = 0;
  for (OpId id = 0; id < static_cast<OpId>(problem.ops.size()); ++id) {
    if (problem.ops[id].kind == OpKind::GradientSum)
      assembleSum(id, chosen, plan);
    if (!problem.ops[id].backward)
      lastForward = id;
  }
  assembleArguments(chosen, plan);
  plan.stages = {{0, lastForward, {}}};
  for (int64_t device = 0; device < degrees.devices(); ++device)
    plan.stages[0].devices.push_back(device);
  return plan;
}

Result<Solution> solveSharding(const Problem &problem, const ProblemFacts &facts,
                               const Cluster &cluster, const Degrees &degrees,
                               std::optional<bool> sequenceParallel, double secondsPerByte) {
  return ShardingSolver(problem, facts, cluster, degrees, sequenceParallel, secondsPerByte)
      .solve();
}

} // namespace dtc::plan
