#include "dtc/Plan/Solve/CostNetwork.h"

#include "dtc/Plan/Solve/Distinct.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

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

int CostNetwork::addTerm(std::vector<Variable> scope, const Costs &costs) {
  const int term = addLive({std::move(scope), costs.maps, costs.table, true});
  originalTerms = terms.size();
  return term;
}

void CostNetwork::setCosts(int term, std::vector<double> costs) {
  terms[term].table = internTable(std::move(costs));
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

/// What the elimination of a variable from these terms depends on.
std::vector<int> CostNetwork::keyOf(const std::vector<int> &bucket, Variable variable,
                                    const std::vector<Variable> &others) const {
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
  return key;
}

CostNetwork::Minimized CostNetwork::eliminate(const std::vector<int> &bucket, Variable variable,
                                              std::set<Variable> &touched) {
  std::vector<Variable> others = neighbours(bucket, variable);
  auto [it, isNew] = memo.try_emplace(keyOf(bucket, variable, others));
  if (isNew)
    it->second = minimize(bucket, variable, others);
  const Eliminated &result = it->second;
  int id = others.empty() ? -1 : addLive({others, result.maps, result.table, true});
  touched.insert(others.begin(), others.end());
  return {bucket, id, result.constant};
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

const std::vector<double> &CostNetwork::leastByChoice(const std::vector<int> &part,
                                                      Variable variable) {
  const std::vector<Variable> others = neighbours(part, variable);
  auto [it, isNew] = leastMemo.try_emplace(keyOf(part, variable, others));
  if (isNew) {
    const Bucket bucket = address(part, variable, others);
    it->second = leastByChoice(bucket, static_cast<size_t>(domains[variable]));
    entriesMade += bucket.entries();
  }
  return it->second;
}

/// Each part gives the variable its own choice. Terms that add up to nothing make the parts agree
/// on what a choice costs at least, which raises the bound.
void CostNetwork::balance(std::vector<std::vector<int>> &parts, Variable variable) {
  std::vector<const std::vector<double> *> least;
  std::vector<double> mean(domains[variable], 0.0);
  for (const std::vector<int> &part : parts) {
    least.push_back(&leastByChoice(part, variable));
    for (size_t choice = 0; choice < mean.size(); ++choice)
      mean[choice] += least.back()->at(choice) / double(parts.size());
  }
  std::vector<int> own(mean.size());
  std::iota(own.begin(), own.end(), 0);
  for (size_t i = 0; i < parts.size(); ++i) {
    std::vector<double> shift = mean; // what a part forbids, all do
    for (size_t choice = 0; choice < mean.size(); ++choice)
      if (mean[choice] < kInfinity)
        shift[choice] -= least[i]->at(choice);
    const Costs costs = intern({own}, std::move(shift));
    parts[i].push_back(addLive({{variable}, costs.maps, costs.table, true}));
  }
}

/// Minimizes out all variables but those to keep. Returns what is subtracted from the terms that
/// are left. Stops at a bucket that is too large, if none may be split.
double CostNetwork::eliminateAll(const std::vector<bool> &keep, int64_t tableLimit, bool maySplit,
                                 Order &order) {
  double constant = 0;
  eliminateInOrder(keep, [&](const std::vector<int> &bucket, Variable variable,
                             std::set<Variable> &touched) {
    auto parts = split(bucket, variable, tableLimit);
    if (parts.size() > 1) {
      wasSplit = true;
      if (!maySplit)
        return false;
      balance(parts, variable);
    }
    Step step{variable, bucket, {}};
    for (const std::vector<int> &part : parts) {
      step.parts.push_back(eliminate(part, variable, touched));
      constant += step.parts.back().constant;
    }
    order.push_back(std::move(step));
    return true;
  });
  return constant;
}

CostNetwork::Solution CostNetwork::solveOnce(int64_t tableLimit, Order &order) {
  Solution solution;
  solution.bound = eliminateAll(std::vector<bool>(domains.size(), false), tableLimit,
                                /*maySplit=*/true, order);
  solution.choices.assign(domains.size(), 0);
  for (auto it = order.rbegin(); it != order.rend(); ++it)
    solution.choices[it->variable] = bestChoice(it->bucket, it->variable, solution.choices);
  solution.cost = cost(solution.choices);
  return solution;
}

/// Whether nothing costs less. Sums of the same costs differ by rounding.
static bool isLeast(const CostNetwork::Solution &solution) {
  return solution.cost <= solution.bound + 1e-12 * std::abs(solution.bound);
}

/// Choices of choices.
static CostNetwork::Choices within(const CostNetwork::Choices &left,
                                   const CostNetwork::Choices &useful) {
  CostNetwork::Choices result(left.size());
  for (size_t variable = 0; variable < left.size(); ++variable)
    for (int choice : useful[variable])
      result[variable].push_back(left[variable][choice]);
  return result;
}

CostNetwork::Choices CostNetwork::allChoices() const {
  Choices result;
  for (int choices : domains) {
    result.emplace_back(choices);
    std::iota(result.back().begin(), result.back().end(), 0);
  }
  return result;
}

double CostNetwork::logAssignments() const {
  return std::accumulate(logDomains.begin(), logDomains.end(), 0.0);
}

bool CostNetwork::repeatsItself(const Order &order) const {
  constexpr size_t mostOnAverage = 4;
  size_t parts = 0;
  for (const Step &step : order)
    parts += step.parts.size();
  return parts > mostOnAverage * memo.size();
}

CostNetwork::Solution CostNetwork::solve(int64_t tableLimit) {
  constexpr double rounding = 1e-9, mostLeft = 0.95;
  int64_t limit = std::min(kFirstTableLimit, tableLimit);
  Solution best{{}, kInfinity, -kInfinity};
  Choices left = allChoices(), useful = left;
  CostNetwork smaller;
  for (CostNetwork *network = this;; network = &smaller) {
    Order order;
    const Solution found = network->solveOnce(limit, order);
    if (found.cost <= best.cost) {
      best.cost = found.cost;
      best.choices = found.choices;
      for (size_t variable = 0; variable < left.size(); ++variable)
        best.choices[variable] = left[variable][found.choices[variable]];
    }
    best.bound = std::max(best.bound, std::min(found.bound, best.cost));
    useful = network->allChoices();
    const bool isDone = !network->wasSplit || isLeast(best);
    if (!isDone && best.cost < kInfinity && !network->repeatsItself(order))
      useful =
          network->usefulChoices(order, best.cost - found.bound + rounding * std::abs(best.cost));
    entriesMade = network->entriesMade;
    if (isDone)
      return best;
    const double before = network->logAssignments();
    smaller = network->restricted(useful);
    left = within(left, useful);
    // Larger tables where few choices went.
    if (smaller.logAssignments() < mostLeft * before)
      continue;
    if (limit >= tableLimit)
      return best;
    limit = std::min(limit * kTableLimitGrowth, tableLimit);
  }
}

} // namespace dtc::plan
