// The terms of the network: what shardings of a value cost.
#include "dtc/Plan/Shard/ShardingSolver.h"
#include "dtc/Plan/Solve/Distinct.h"

#include "dtc/Plan/Cost/AttentionForm.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace dtc::plan {

using sharding::TensorSharding;

/// Values with more combinations of shardings get a variable of their own.
static constexpr size_t kMaxCombinations = 1 << 13;
/// Gradients are summed in buckets of about this size.
static constexpr double kBucketBytes = 25e6;

//===-- readers of a value ------------------------------------------------===//

static ShardingId madeBy(const std::vector<const ShardingSolver::View *> &views) {
  for (const ShardingSolver::View *view : views)
    if (view->made >= 0)
      return view->made;
  return -1;
}

/// The shardings in one of the lists of views, until it is asked again.
const std::vector<ShardingId> &ShardingSolver::distinctOf(const std::vector<const View *> &views,
                                                          std::vector<ShardingId> View::*list) {
  shardingsOfViews.clear();
  for (const View *view : views)
    shardingsOfViews.insert(shardingsOfViews.end(), (view->*list).begin(), (view->*list).end());
  keepDistinct(shardingsOfViews);
  return shardingsOfViews;
}

/// Every distinct sharding that is read is made once.
double ShardingSolver::priceReaders(const Value &value, const std::vector<const View *> &views) {
  ShardingId made = madeBy(views);
  const std::vector<ShardingId> &wanted = distinctOf(views, &View::read);
  double seconds = 0;
  for (ShardingId sharding : wanted)
    seconds += shardings.reshardSeconds(value, made, sharding);
  return numMicrobatches * seconds;
}

/// A variable whose choices are the shardings of `domain`, for a value.
ShardingSolver::Member ShardingSolver::addSharedVariable(ValueId value,
                                                         std::vector<ShardingId> domain) {
  keepDistinct(domain);
  auto [it, isNew] = domainIds.try_emplace(domain, static_cast<int>(domains.size()));
  if (isNew)
    domains.push_back(domain);
  Member member;
  member.type = Member::SharedMember;
  member.variable = addVariable(domain.size(), -1, value);
  member.kind = it->second;
  return member;
}

bool ShardingSolver::isSmall(const std::vector<Member> &members) {
  size_t most = 1, combinations = 1;
  for (const Member &member : members)
    most = std::min(most * viewCount(member), kMaxCombinations + 1);
  if (most <= kMaxCombinations)
    return true;
  for (const Member &member : members) {
    std::vector<View> all = views(member);
    std::sort(all.begin(), all.end());
    combinations *= std::unique(all.begin(), all.end()) - all.begin();
    if (combinations > kMaxCombinations)
      return false;
  }
  return true;
}

/// The sharding in which all members meet: any in which one of them has the value.
ShardingSolver::Member ShardingSolver::addShared(ValueId value,
                                                 const std::vector<Member> &members) {
  std::vector<ShardingId> domain;
  for (const Member &member : members)
    for (const View &view : views(member)) {
      if (view.made >= 0)
        domain.push_back(view.made);
      domain.insert(domain.end(), view.terms.begin(), view.terms.end());
      domain.insert(domain.end(), view.read.begin(), view.read.end());
    }
  return addSharedVariable(value, std::move(domain));
}

void ShardingSolver::addReaders(ValueId id) {
  std::vector<Member> members = {maker(id)};
  OpId producer = facts.producer[id];
  if (producer >= 0 && bundles.bundleOf[producer] >= 0)
    members[0].read = members[0].made->local;
  // As `join`, which would take the square of thousands of readers.
  std::unordered_map<int, size_t> indexOf = {{members[0].variable, 0}};
  for (OpId consumer : facts.consumers[id]) {
    int bundle = bundles.bundleOf[consumer];
    if (bundle < 0)
      continue;
    Member reader;
    reader.type = Member::BundleMember;
    reader.variable = bundleVariable[bundle];
    reader.kind = bundles.bundles[bundle].kind;
    reader.read = localOf(consumer, id);
    if (auto [known, isNew] = indexOf.try_emplace(reader.variable, members.size()); isNew)
      members.push_back(reader);
    else
      members[known->second].read = reader.read;
  }
  const Value &value = problem.values[id];
  if (members.size() <= 2 || (members.size() <= 5 && isSmall(members))) {
    addTerm(value, members, &ShardingSolver::priceReaders, 0);
    return;
  }
  // Data and tables come in one sharding whatever is chosen. It is such that their readers, which
  // may be in every layer, take their parts for free.
  if (viewCount(members[0]) == 1) {
    for (size_t i = 1; i < members.size(); ++i)
      addTerm(value, {members[0], members[i]}, &ShardingSolver::priceReaders, 0);
    return;
  }
  Member shared = addShared(id, members);
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

/// Terms of equal sharding are added first, then brought to the sum's sharding.
double ShardingSolver::priceTerms(const Value &value, const std::vector<const View *> &views) {
  ShardingId target = madeBy(views);
  const std::vector<ShardingId> &terms = distinctOf(views, &View::terms);
  double seconds = 0;
  for (ShardingId sharding : terms)
    seconds += shardings.reshardSeconds(value, sharding, target);
  return numMicrobatches * seconds;
}

/// Reading the terms and writing their sum.
void ShardingSolver::addAddition(OpId op) {
  ValueId total = problem.ops[op].results[0];
  Member made = maker(total);
  if (made.type == Member::Fixed)
    return;
  const std::vector<ValueId> &operands = problem.ops[op].operands;
  const auto terms = std::count_if(operands.begin(), operands.end(),
                                   [&](ValueId operand) { return operand >= problem.arguments; });
  const bool sharesKernels = terms > 1 && model.isOwnProgram();
  std::vector<double> costs;
  for (const View &view : views(made)) {
    const int64_t bytes = localBytes(problem.values[total], shardings[view.made], mesh);
    costs.push_back(numMicrobatches *
                    (sharesKernels
                         ? work.sumSeconds(op, bytes)
                         : model.streamSeconds(double(operands.size() + 1) * double(bytes))));
  }
  std::vector<int> own(costs.size());
  std::iota(own.begin(), own.end(), 0);
  network.addTerm({made.variable}, {own}, std::move(costs));
}

void ShardingSolver::addSum(OpId op) {
  addAddition(op);
  ValueId total = problem.ops[op].results[0];
  ValueId of = facts.gradientOf[total];
  if (of < 0 || of < problem.arguments)
    return; // a loss, or the gradient of a parameter: see addParameterGradient
  const Value &value = problem.values[total];
  std::vector<Member> members = {maker(total)};
  for (ValueId operand : problem.ops[op].operands)
    if (operand >= problem.arguments)
      join(members, term(operand));
  if (members.size() <= 2 || isSmall(members)) {
    addTerm(value, members, &ShardingSolver::priceTerms, 1);
    return;
  }
  Member shared = addShared(total, members);
  Member asTerm = shared, asTotal = shared;
  asTerm.terms = {Tensor{}};
  asTotal.made = Tensor{};
  addTerm(value, {members[0], asTerm}, &ShardingSolver::priceTerms, 1);
  for (size_t i = 1; i < members.size(); ++i)
    addTerm(value, {asTotal, members[i]}, &ShardingSolver::priceTerms, 1);
}

//===-- parameters --------------------------------------------------------===//

/// A parameter's choices are the shardings in which any reader may want it.
void ShardingSolver::addParameter(ValueId value) {
  const Value &parameter = problem.values[value];
  std::vector<ShardingId> wanted;
  for (OpId consumer : facts.consumers[value])
    if (int bundle = bundles.bundleOf[consumer]; bundle >= 0)
      for (const ChoiceOutcome &outcome : choices.outcomes(bundles.bundles[bundle].kind))
        for (ShardingId sharding : outcome.required[localOf(consumer, value)])
          if (shardings[sharding].partial.empty())
            wanted.push_back(sharding);
  if (wanted.empty())
    wanted.push_back(shardings.intern(TensorSharding::replicated(parameter.shape.size())));
  // Where weights stay as they are stored, those of products are never whole on all tensor-parallel
  // ranks. Computing parts of the sequence with copies isn't tensor parallelism.
  auto isTensor = [&](sharding::AxisId axis) { return mesh.axes[axis].degree == "tp"; };
  auto isWhole = [&](ShardingId sharding) {
    return std::all_of(shardings[sharding].dims.begin(), shardings[sharding].dims.end(),
                       [&](const sharding::AxisList &axes) {
                         return std::none_of(axes.begin(), axes.end(), isTensor);
                       });
  };
  bool ofProduct = std::any_of(
      facts.consumers[value].begin(), facts.consumers[value].end(),
      [&](OpId consumer) { return problem.ops[consumer].kind == OpKind::Contraction; });
  if (!model.getCluster().software.gathersWeights && ofProduct &&
      !std::all_of(wanted.begin(), wanted.end(), isWhole))
    std::erase_if(wanted, isWhole);
  if (forced && forced->argument == value)
    wanted = {shardings.intern(forced->tensor)};
  Member member = addSharedVariable(value, std::move(wanted));
  member.made = Tensor{};
  parameters[value] = member;
  const std::vector<ShardingId> &domain = domains[member.kind];
  std::vector<double> seconds, held;
  for (ShardingId sharding : domain) {
    bool trained = facts.gradientResult[value] >= 0;
    ParameterBytes bytes = parameterBytes(problem, value, trained, shardings[sharding], mesh,
                                          model.getCluster().software);
    // As in the prediction: the update, and the gradient's norm before it.
    double moved = trained ? double(bytes.updateTraffic() + bytes.gradient) : 0;
    double launches = trained ? model.updateLaunchSeconds(1) : 0;
    seconds.push_back(model.streamSeconds(moved) + launches);
    held.push_back(double(bytes.most()));
  }
  addHeld(member.variable, std::move(seconds), std::move(held));
}

/// How a parameter's gradient leaves the function: laid out as the parameter,
/// pending over the axes over which all terms are.
ShardingId ShardingSolver::accumulated(ShardingId parameter, const std::vector<ShardingId> &terms) {
  TensorSharding result = shardings[parameter];
  for (const sharding::Partial &partial : shardings[terms[0]].partial)
    if (!result.splits(partial.axis) &&
        std::all_of(terms.begin(), terms.end(), [&](ShardingId term) {
          const auto &list = shardings[term].partial;
          return std::find(list.begin(), list.end(), partial) != list.end();
        }))
      result.partial.push_back(partial);
  return shardings.intern(result);
}

/// The sum over the axes still pending, as a share of a bucket's.
double ShardingSolver::onceAStep(const Value &parameter, ShardingId gradient) {
  sharding::AxisList axes;
  for (const sharding::Partial &partial : shardings[gradient].partial)
    axes.push_back(partial.axis);
  if (axes.empty())
    return 0;
  double bucket = model.collectiveSeconds(sharding::StepKind::AllReduce, axes, kBucketBytes, mesh);
  return bucket * double(localBytes(parameter, shardings[gradient], mesh)) / kBucketBytes;
}

double ShardingSolver::priceGradient(const Value &value, const std::vector<const View *> &views) {
  ShardingId parameter = madeBy(views);
  const std::vector<ShardingId> &terms = distinctOf(views, &View::terms);
  ShardingId target = accumulated(parameter, terms);
  double seconds = 0;
  for (ShardingId sharding : terms)
    seconds += shardings.reshardSeconds(value, sharding, target);
  return numMicrobatches * seconds + onceAStep(value, target);
}

/// What may come out of `accumulated`, whichever shardings the parameter and its terms have.
std::vector<ShardingId> ShardingSolver::accumulations(const std::vector<Member> &members) {
  std::vector<std::vector<sharding::Partial>> sums = {{}};
  auto add = [&](std::vector<sharding::Partial> partial) {
    if (std::find(sums.begin(), sums.end(), partial) == sums.end())
      sums.push_back(std::move(partial));
  };
  for (const Member &member : members)
    for (const View &view : views(member))
      for (ShardingId term : view.terms)
        add(shardings[term].partial);
  for (size_t i = 0; i < sums.size(); ++i) // what pends in all of several
    for (size_t j = 0; j < i; ++j) {
      std::vector<sharding::Partial> both;
      std::set_intersection(sums[i].begin(), sums[i].end(), sums[j].begin(), sums[j].end(),
                            std::back_inserter(both));
      add(std::move(both));
    }
  std::vector<ShardingId> result;
  for (ShardingId parameter : domains[members[0].kind])
    for (const std::vector<sharding::Partial> &partial : sums) {
      TensorSharding pending = TensorSharding::replicated(shardings[parameter].dims.size());
      pending.partial = partial;
      result.push_back(accumulated(parameter, {shardings.intern(pending)}));
    }
  return result;
}

/// Of a gradient that leaves laid out as its only term.
double ShardingSolver::priceAccumulation(const Value &value,
                                         const std::vector<const View *> &views) {
  ShardingId parameter = madeBy(views);
  for (const View *view : views)
    for (ShardingId target : view->terms)
      return accumulated(parameter, {target}) == target ? onceAStep(value, target)
                                                        : std::numeric_limits<double>::infinity();
  return 0;
}

/// Of a parameter that many bundles read, one more variable says how its gradient leaves; each
/// term is brought there by itself.
void ShardingSolver::addParameterGradient(ValueId parameter) {
  int index = facts.gradientResult[parameter];
  if (index < 0)
    return;
  const Value &value = problem.values[parameter];
  std::vector<Member> members = {maker(parameter)};
  for (ValueId term : leafTerms(problem.results[index].value))
    join(members, this->term(term));
  if (members.size() <= 2 || isSmall(members)) {
    addTerm(value, members, &ShardingSolver::priceGradient, 2);
    return;
  }
  Member asTerm = addSharedVariable(parameter, accumulations(members)), asTotal = asTerm;
  asTerm.terms = {Tensor{}};
  asTotal.made = Tensor{};
  addTerm(value, {members[0], asTerm}, &ShardingSolver::priceAccumulation, 4);
  for (size_t i = 1; i < members.size(); ++i)
    addTerm(value, {asTotal, members[i]}, &ShardingSolver::priceTerms, 1);
}

double ShardingSolver::priceOutput(const Value &value, const std::vector<const View *> &views) {
  ShardingId made = madeBy(views);
  return numMicrobatches * shardings.reshardSeconds(value, made, complete(made));
}

/// An output of the model leaves the function complete.
void ShardingSolver::addOutput(ValueId value) {
  addTerm(problem.values[value], {maker(value)}, &ShardingSolver::priceOutput, 3);
}

} // namespace dtc::plan
