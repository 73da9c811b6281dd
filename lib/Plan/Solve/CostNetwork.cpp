#include "dtc/Plan/Solve/CostNetwork.h"

#include "dtc/Plan/Solve/Distinct.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace dtc::plan {

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

//===-- building ----------------------------------------------------------===//

CostNetwork::Variable CostNetwork::addVariable(int choices) {
  domains.push_back(choices);
  logDomains.push_back(std::log2(double(choices)));
  termsOf.emplace_back();
  return static_cast<Variable>(domains.size()) - 1;
}

int CostNetwork::internMap(std::vector<int> classOf) {
  auto [it, isNew] = mapIds.try_emplace(classOf, static_cast<int>(maps.size()));
  if (isNew) {
    int count = classOf.empty() ? 0 : *std::max_element(classOf.begin(), classOf.end()) + 1;
    maps.push_back({std::move(classOf), count, std::log2(double(count))});
  }
  return it->second;
}

int CostNetwork::internTable(std::vector<double> costs) {
  uint64_t hash = 1469598103934665603ull ^ costs.size();
  for (double cost : costs) {
    uint64_t bits = 0;
    std::memcpy(&bits, &cost, sizeof(bits));
    hash = (hash ^ bits) * 1099511628211ull;
    hash ^= hash >> 29;
  }
  std::vector<int> &candidates = tableIds[hash];
  for (int id : candidates)
    if (tables[id] == costs)
      return id;
  candidates.push_back(static_cast<int>(tables.size()));
  tables.push_back(std::move(costs));
  return candidates.back();
}

int CostNetwork::addLive(Term term) {
  int id = static_cast<int>(terms.size());
  for (Variable variable : term.scope)
    termsOf[variable].push_back(id);
  terms.push_back(std::move(term));
  return id;
}

CostNetwork::Costs CostNetwork::intern(const std::vector<std::vector<int>> &classes,
                                       std::vector<double> costs) {
  Costs result;
  for (const std::vector<int> &map : classes)
    result.maps.push_back(internMap(map));
  result.table = internTable(std::move(costs));
  return result;
}

void CostNetwork::addTerm(std::vector<Variable> scope, const Costs &costs) {
  addLive({std::move(scope), costs.maps, costs.table, true});
  originalTerms = terms.size();
}

//===-- evaluating --------------------------------------------------------===//

size_t CostNetwork::entry(const Term &term, const std::vector<int> &choices) const {
  size_t index = 0;
  for (size_t i = 0; i < term.scope.size(); ++i) {
    const ClassMap &map = maps[term.maps[i]];
    index = index * map.count + map.classOf[choices[term.scope[i]]];
  }
  return index;
}

double CostNetwork::cost(const std::vector<int> &choices) const {
  double sum = 0;
  for (size_t i = 0; i < originalTerms; ++i)
    sum += tables[terms[i].table][entry(terms[i], choices)];
  return sum;
}

//===-- elimination -------------------------------------------------------===//

std::vector<int> CostNetwork::liveTerms(Variable variable) const {
  std::vector<int> result;
  for (int id : termsOf[variable])
    if (terms[id].live)
      result.push_back(id);
  return result;
}

std::vector<CostNetwork::Variable> CostNetwork::neighbours(const std::vector<int> &bucket,
                                                           Variable variable) const {
  std::vector<Variable> result;
  for (int id : bucket)
    for (Variable other : terms[id].scope)
      if (other != variable)
        result.push_back(other);
  keepDistinct(result);
  return result;
}

/// log2 of how many entries the new term has at most.
double CostNetwork::logSize(const std::vector<int> &bucket, Variable variable) const {
  std::vector<std::pair<Variable, double>> classes;
  for (int id : bucket)
    for (size_t i = 0; i < terms[id].scope.size(); ++i)
      if (terms[id].scope[i] != variable)
        classes.emplace_back(terms[id].scope[i], maps[terms[id].maps[i]].logCount);
  std::sort(classes.begin(), classes.end());
  double sum = 0;
  for (size_t i = 0; i < classes.size();) {
    Variable other = classes[i].first;
    double size = 0;
    for (; i < classes.size() && classes[i].first == other; ++i)
      size += classes[i].second;
    sum += std::min(size, logDomains[other]);
  }
  return sum;
}

std::vector<int> CostNetwork::jointClasses(const std::vector<const std::vector<int> *> &classMaps,
                                           int choices) {
  std::vector<int> result(choices, 0);
  int count = 1;
  for (const std::vector<int> *map : classMaps) {
    int width = *std::max_element(map->begin(), map->end()) + 1, next = 0;
    std::vector<int> ids(size_t(count) * width, -1); // by the class so far and in this map
    for (int choice = 0; choice < choices; ++choice) {
      int &id = ids[size_t(result[choice]) * width + (*map)[choice]];
      if (id < 0)
        id = next++;
      result[choice] = id;
    }
    count = next;
  }
  return result;
}

/// The first choice of each class.
static std::vector<int> representatives(const std::vector<int> &classOf) {
  std::vector<int> result;
  for (size_t choice = 0; choice < classOf.size(); ++choice)
    if (classOf[choice] == static_cast<int>(result.size()))
      result.push_back(static_cast<int>(choice));
  return result;
}

size_t CostNetwork::Bucket::entries() const {
  size_t total = 1;
  for (size_t count : counts) // or more than can be counted
    total = total > std::numeric_limits<size_t>::max() / count
                ? std::numeric_limits<size_t>::max() : total * count;
  return total;
}

CostNetwork::Bucket CostNetwork::address(const std::vector<int> &ids, Variable variable,
                                         const std::vector<Variable> &others) const {
  Bucket bucket;
  for (Variable other : others) {
    std::vector<const std::vector<int> *> classMaps;
    for (int id : ids)
      for (size_t i = 0; i < terms[id].scope.size(); ++i)
        if (terms[id].scope[i] == other)
          classMaps.push_back(&maps[terms[id].maps[i]].classOf);
    bucket.joint.push_back(jointClasses(classMaps, domains[other]));
    const std::vector<int> &joint = bucket.joint.back();
    bucket.counts.push_back(*std::max_element(joint.begin(), joint.end()) + 1);
  }
  for (int id : ids) {
    const Term &term = terms[id];
    Addressed one{term.table, 0, nullptr, {}};
    one.offsets.resize(others.size());
    size_t stride = 1;
    for (size_t i = term.scope.size(); i-- > 0; stride *= maps[term.maps[i]].count) {
      const std::vector<int> &classOf = maps[term.maps[i]].classOf;
      if (term.scope[i] == variable) {
        one.own = stride;
        one.ownClass = &classOf;
        continue;
      }
      size_t at = std::lower_bound(others.begin(), others.end(), term.scope[i]) - others.begin();
      for (int choice : representatives(bucket.joint[at]))
        one.offsets[at].push_back(stride * classOf[choice]);
    }
    bucket.terms.push_back(std::move(one));
  }
  return bucket;
}

//===-- minimizing a variable out -----------------------------------------===//

CostNetwork::Eliminated CostNetwork::minimize(const std::vector<int> &ids, Variable variable,
                                              const std::vector<Variable> &others) {
  Bucket bucket = address(ids, variable, others);
  std::vector<double> costs = leastSums(bucket, static_cast<size_t>(domains[variable]));
  entriesMade += costs.size();
  Eliminated result;
  result.constant = *std::min_element(costs.begin(), costs.end());
  if (result.constant < kInfinity)
    for (double &cost : costs)
      cost -= result.constant;
  for (std::vector<int> &classOf : bucket.joint)
    result.maps.push_back(internMap(std::move(classOf)));
  result.table = internTable(std::move(costs));
  return result;
}

double CostNetwork::eliminate(const std::vector<int> &bucket, Variable variable,
                              std::set<Variable> &touched) {
  std::vector<Variable> others = neighbours(bucket, variable);
  std::vector<int> key = {domains[variable]};
  for (Variable other : others)
    key.push_back(domains[other]);
  for (int id : bucket) {
    key.push_back(-1 - terms[id].table);
    for (size_t i = 0; i < terms[id].scope.size(); ++i) {
      Variable member = terms[id].scope[i];
      auto position = std::lower_bound(others.begin(), others.end(), member) - others.begin();
      key.push_back(member == variable ? -1 : static_cast<int>(position));
      key.push_back(terms[id].maps[i]);
    }
  }
  auto it = memo.find(key);
  if (it == memo.end())
    it = memo.emplace(std::move(key), minimize(bucket, variable, others)).first;
  const Eliminated &result = it->second;
  if (!others.empty())
    addLive({others, result.maps, result.table, true});
  touched.insert(others.begin(), others.end());
  return result.constant;
}

/// Parts of a bucket whose eliminations stay below the limit: terms join the
/// first part that they fit into, the widest first.
std::vector<std::vector<int>> CostNetwork::split(const std::vector<int> &bucket,
                                                 Variable variable, int64_t limit) const {
  double logLimit = std::log2(double(limit));
  if (logSize(bucket, variable) <= logLimit)
    return {bucket};
  std::vector<int> order = bucket;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return terms[a].scope.size() > terms[b].scope.size();
  });
  std::vector<std::vector<int>> parts;
  for (int id : order) {
    bool placed = false;
    for (std::vector<int> &part : parts) {
      part.push_back(id);
      placed = logSize(part, variable) <= logLimit;
      if (placed)
        break;
      part.pop_back();
    }
    if (!placed)
      parts.push_back({id});
  }
  return parts;
}

int CostNetwork::bestChoice(const std::vector<int> &bucket, Variable variable,
                            std::vector<int> &choices) const {
  int best = 0;
  double bestCost = kInfinity;
  for (int choice = 0; choice < domains[variable]; ++choice) {
    choices[variable] = choice;
    double sum = 0;
    for (int id : bucket)
      sum += tables[terms[id].table][entry(terms[id], choices)];
    if (sum < bestCost) {
      bestCost = sum;
      best = choice;
    }
  }
  return best;
}

/// Minimizes out all variables but those to keep. Returns what is subtracted from
/// the terms that are left.
double CostNetwork::eliminateAll(const std::vector<bool> &keep, int64_t tableLimit, Order &order) {
  double constant = 0;
  eliminateInOrder(keep, [&](const std::vector<int> &bucket, Variable variable,
                             std::set<Variable> &touched) {
    auto parts = split(bucket, variable, tableLimit);
    wasSplit = wasSplit || parts.size() > 1;
    for (const std::vector<int> &part : parts)
      constant += eliminate(part, variable, touched);
    order.emplace_back(variable, bucket);
    return true;
  });
  return constant;
}

CostNetwork::Solution CostNetwork::solveOnce(int64_t tableLimit) {
  Solution solution;
  Order order;
  solution.bound = eliminateAll(std::vector<bool>(domains.size(), false), tableLimit, order);
  solution.choices.assign(domains.size(), 0);
  for (auto it = order.rbegin(); it != order.rend(); ++it)
    solution.choices[it->first] = bestChoice(it->second, it->first, solution.choices);
  solution.cost = cost(solution.choices);
  return solution;
}

/// Brings all variables back. What was minimized out is still known.
void CostNetwork::restore() {
  terms.resize(originalTerms);
  for (Term &term : terms)
    term.live = true;
  for (std::vector<int> &ids : termsOf)
    ids.erase(std::lower_bound(ids.begin(), ids.end(), static_cast<int>(originalTerms)), ids.end());
  wasSplit = false;
}

/// Whether nothing costs less. Sums of the same costs differ by rounding.
static bool isLeast(const CostNetwork::Solution &solution) {
  return solution.cost <= solution.bound + 1e-12 * std::abs(solution.bound);
}

CostNetwork::Solution CostNetwork::solve(int64_t tableLimit) {
  int64_t limit = std::min(kFirstTableLimit, tableLimit);
  Solution best = solveOnce(limit);
  while (wasSplit && limit < tableLimit && !isLeast(best)) {
    limit = std::min(limit * kTableLimitGrowth, tableLimit);
    restore();
    Solution found = solveOnce(limit);
    found.bound = std::max(found.bound, best.bound);
    if (found.cost <= best.cost) {
      best = std::move(found);
    } else {
      best.bound = found.bound;
    }
  }
  return best;
}

} // namespace dtc::plan
