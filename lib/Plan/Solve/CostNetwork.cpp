#include "dtc/Plan/Solve/CostNetwork.h"

#include "dtc/Plan/Solve/Distinct.h"

#include <algorithm>
#include <array>
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

/// Much of a search for shardings is spent here. What a term costs lies side by side for all
/// choices of the variable x. Few terms change from one entry of the result to the next. What the
/// terms before these add up to is kept. For t0(x), t1(x, a), t2(x, b), with the entries (a, b):
///
///   entry    changes   added up for all x
///   (0, 0)   all       t0, then t1, then t2
///   (0, 1)   t2        t0 + t1 as they were, then t2
///   (1, 0)   t1, t2    t0 as it was, then t1, then t2
///
/// Each sum adds the terms in their order, so that it is the same to the last bit.
class CostNetwork::LeastSums {
public:
  LeastSums(const CostNetwork &network, const Bucket &bucket, size_t choices);
  std::vector<double> run();

private:
  struct Row {
    const double *costs = nullptr; ///< a table with the variable's choices or classes side by side
    std::vector<double> turned;    ///< that table, where the network's is another
    std::vector<std::vector<size_t>> offsets;   ///< in it, as in Addressed
    size_t at = 0;                              ///< the offset of the entry
    const std::vector<int> *ownClass = nullptr; ///< null: choices are side by side
    std::vector<double> spread;                 ///< by choice, where they aren't
    const double *byChoice() const { return ownClass ? spread.data() : costs + at; }
  };
  struct Change {
    size_t term = 0;
    const size_t *offsets = nullptr;
  };
  Row rowOf(const std::vector<double> &table, const Addressed &term) const;
  void turn(Row &row, const std::vector<double> &table, const Addressed &term, bool spreads) const;
  void spreadFrom(size_t term);
  size_t advance();
  double least(size_t firstChanged);

  const Bucket &bucket;
  size_t choices;
  std::vector<Row> rows;                    ///< by term
  std::vector<std::vector<Change>> changes; ///< by neighbour, the terms that mention it
  std::vector<int> classes;                 ///< of the neighbours, in the entry
  std::vector<std::vector<double>> sums;    ///< of the terms before each, by choice
};

CostNetwork::LeastSums::LeastSums(const CostNetwork &network, const Bucket &bucket, size_t choices)
    : bucket(bucket), choices(choices), changes(bucket.counts.size()),
      classes(bucket.counts.size(), 0),
      sums(bucket.terms.size(), std::vector<double>(choices, 0.0)) {
  for (const Addressed &term : bucket.terms)
    rows.push_back(rowOf(network.tables[term.table], term));
  for (size_t term = 0; term < rows.size(); ++term)
    for (size_t other = 0; other < changes.size(); ++other)
      if (const std::vector<size_t> &offsets = rows[term].offsets[other]; !offsets.empty()) {
        changes[other].push_back({term, offsets.data()});
        rows[term].at += offsets[0];
      }
  spreadFrom(0);
}

/// Whether choice i has the class i.
static bool isIdentity(const std::vector<int> &classOf) {
  for (size_t i = 0; i < classOf.size(); ++i)
    if (classOf[i] != static_cast<int>(i))
      return false;
  return true;
}

CostNetwork::LeastSums::Row CostNetwork::LeastSums::rowOf(const std::vector<double> &table,
                                                          const Addressed &term) const {
  const size_t own = *std::ranges::max_element(*term.ownClass) + 1;
  const bool isSpread = isIdentity(*term.ownClass);
  // What is copied has at most twice the entries of the result.
  const bool spreads = !isSpread && table.size() / own * choices / 2 <= bucket.entries();
  Row row;
  row.costs = table.data();
  row.offsets = term.offsets;
  if (!isSpread && !spreads)
    row.ownClass = term.ownClass;
  if (spreads || term.own > 1)
    turn(row, table, term, spreads);
  return row;
}

/// A table is [before][own class][after], with `term.own` entries after. It becomes
/// [before][after][own class or choice].
void CostNetwork::LeastSums::turn(Row &row, const std::vector<double> &table, const Addressed &term,
                                  bool spreads) const {
  const size_t own = *std::ranges::max_element(*term.ownClass) + 1, after = term.own;
  const size_t width = spreads ? choices : own;
  row.turned.reserve(table.size() / own * width);
  for (size_t before = 0; before < table.size(); before += own * after)
    for (size_t i = 0; i < after; ++i)
      for (size_t one = 0; one < width; ++one)
        row.turned.push_back(
            table[before + i +
                  after * (spreads ? static_cast<size_t>((*term.ownClass)[one]) : one)]);
  row.costs = row.turned.data();
  for (std::vector<size_t> &offsets : row.offsets)
    for (size_t &offset : offsets)
      offset = offset < after ? offset * width : offset / own * width;
}

/// Finds the costs by choice of the entry, for the terms from one on.
void CostNetwork::LeastSums::spreadFrom(size_t term) {
  for (; term < rows.size(); ++term) {
    Row &row = rows[term];
    if (!row.ownClass)
      continue;
    row.spread.resize(choices);
    for (size_t choice = 0; choice < choices; ++choice)
      row.spread[choice] = row.costs[row.at + (*row.ownClass)[choice]];
  }
}

/// To the next entry. Gives the first term that has other costs there.
size_t CostNetwork::LeastSums::advance() {
  size_t firstChanged = rows.size();
  bool isDone = false;
  for (size_t i = classes.size(); i > 0 && !isDone; --i) {
    const int last = classes[i - 1], next = last + 1 < bucket.counts[i - 1] ? last + 1 : 0;
    classes[i - 1] = next;
    isDone = next > 0;
    for (const Change &change : changes[i - 1]) {
      rows[change.term].at += change.offsets[next] - change.offsets[last];
      firstChanged = std::min(firstChanged, change.term);
    }
  }
  spreadFrom(firstChanged);
  return firstChanged;
}

/// The least of the sums of two lists.
static double leastSum(const double *a, const double *b, size_t size) {
  constexpr size_t kLanes = 4; // minima that don't wait for each other
  std::array<double, kLanes> least;
  least.fill(kInfinity);
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double sum = a[i + lane] + b[i + lane];
      least[lane] = sum < least[lane] ? sum : least[lane];
    }
  for (; i < size; ++i)
    least[0] = std::min(least[0], a[i] + b[i]);
  return *std::ranges::min_element(least);
}

double CostNetwork::LeastSums::least(size_t firstChanged) {
  for (size_t term = firstChanged; term + 1 < rows.size(); ++term) {
    const double *before = sums[term].data(), *costs = rows[term].byChoice();
    double *__restrict after = sums[term + 1].data();
    for (size_t choice = 0; choice < choices; ++choice)
      after[choice] = before[choice] + costs[choice];
  }
  return leastSum(sums.back().data(), rows.back().byChoice(), choices);
}

std::vector<double> CostNetwork::LeastSums::run() {
  std::vector<double> result(bucket.entries());
  size_t firstChanged = 0;
  for (double &entry : result) {
    entry = least(firstChanged);
    firstChanged = advance();
  }
  return result;
}

std::vector<double> CostNetwork::leastSums(const Bucket &bucket, size_t choices) const {
  if (bucket.terms.empty())
    return std::vector<double>(bucket.entries(), 0.0);
  return LeastSums(*this, bucket, choices).run();
}

CostNetwork::Eliminated CostNetwork::minimize(const std::vector<int> &ids, Variable variable,
                                              const std::vector<Variable> &others) {
  Bucket bucket = address(ids, variable, others);
  std::vector<double> costs = leastSums(bucket, static_cast<size_t>(domains[variable]));
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

CostNetwork::Solution CostNetwork::solve(int64_t tableLimit) {
  Solution solution;
  Order order;
  solution.bound = eliminateAll(std::vector<bool>(domains.size(), false), tableLimit, order);
  solution.choices.assign(domains.size(), 0);
  for (auto it = order.rbegin(); it != order.rend(); ++it)
    solution.choices[it->first] = bestChoice(it->second, it->first, solution.choices);
  solution.cost = cost(solution.choices);
  return solution;
}

} // namespace dtc::plan
