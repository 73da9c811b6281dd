// What combinations of choices cost.
#include "Statement.h"

#include "dtc/Plan/Cost/AttentionForm.h"

#include <algorithm>
#include <cmath>

namespace dtc::plan::testing {

using nlohmann::json;

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
    for (size_t choice = 0; choice < part.shardings.size(); ++choice)
      it->shardings[choice].insert(it->shardings[choice].end(), part.shardings[choice].begin(),
                                   part.shardings[choice].end());
  }
  for (Part &part : result)
    for (std::vector<int> &list : part.shardings) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
  return result;
}

static json asJson(const Part &part) {
  return {{"decider", part.decider}, {"layouts", part.shardings}};
}

/// Between the hub's sharding and each distinct one of the spokes.
void Statement::addTransfer(const Value &value, const Part &hub, std::vector<Part> spokes,
                            bool toHub) {
  spokes = joined(spokes);
  if (spokes.empty())
    return;
  std::set<int> hubs, others;
  for (const std::vector<int> &list : hub.shardings)
    hubs.insert(list.begin(), list.end());
  json entry = {{"hub", asJson(hub)}, {"spokes", json::array()}, {"seconds", json::array()}};
  for (const Part &spoke : spokes) {
    entry["spokes"].push_back(asJson(spoke));
    for (const std::vector<int> &list : spoke.shardings)
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
  const auto sums = std::count_if(op.operands.begin(), op.operands.end(),
                                  [&](ValueId term) { return term >= problem.arguments; });
  const bool sharesKernels = sums > 1 && isOwnProgram(model.device(), model.getCluster().software);
  if (made.decider >= 0) {
    json table = {
        {"deciders", {made.decider}}, {"classes", json::array()}, {"costs", json::array()}};
    std::vector<int> own;
    for (size_t choice = 0; choice < made.shardings.size(); ++choice) {
      own.push_back(static_cast<int>(choice));
      int64_t bytes = localBytes(problem.values[total], shardings[made.shardings[choice][0]], mesh);
      double passes = double(op.operands.size() + 1) * double(bytes);
      table["costs"].push_back(
          calls * (sharesKernels ? work.sumSeconds(id, bytes) : model.streamSeconds(passes)));
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

/// Terms are brought to the parameter's sharding, still pending over the axes over which all of
/// them are. That is summed once a step, in buckets.
double Statement::gradientSeconds(const Value &parameter, int sharding,
                                  const std::set<int> &terms) {
  constexpr double bucketBytes = 25e6;
  TensorSharding target = shardings[sharding];
  AxisList axes;
  for (sharding::Partial partial : shardings[*terms.begin()].partial) {
    bool all = std::all_of(terms.begin(), terms.end(),
                           [&](int term) { return shardings[term].isPartial(partial.axis); });
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
    for (const std::vector<int> &list : part.shardings) {
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
    int sharding = -1;
    for (size_t i = terms.size(); i-- > 0; rest /= distinct[i].size()) {
      const std::vector<int> &list = distinct[i][rest % distinct[i].size()];
      if (i == 0)
        sharding = list[0];
      else
        layoutsOfTerms.insert(list.begin(), list.end());
    }
    double cost = gradientSeconds(problem.values[parameter], sharding, layoutsOfTerms);
    table["costs"].push_back(std::isfinite(cost) ? json(cost) : json(nullptr));
  }
  tables.push_back(std::move(table));
}

} // namespace dtc::plan::testing
