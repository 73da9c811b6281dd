// Chains of equal blocks of variables: CostNetwork::solveChain.
#include "dtc/Plan/Solve/CostNetwork.h"
#include "dtc/Plan/Solve/Distinct.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc::plan {

static constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Joint choices of what two blocks share; powers of a table of more take long.
static constexpr size_t kMostStates = 64;

namespace {

/// Costs by the joint choices of what a block shares with the one before it
/// (rows) and with the next (columns).
class Table {
public:
  explicit Table(size_t size) : size(size), cells(size * size, kInfinity) {}
  double &at(size_t row, size_t column) { return cells[row * size + column]; }
  double at(size_t row, size_t column) const { return cells[row * size + column]; }

  /// Two runs of blocks, one after the other.
  Table operator*(const Table &next) const {
    Table result(size);
    for (size_t row = 0; row < size; ++row)
      for (size_t middle = 0; middle < size; ++middle)
        for (size_t column = 0; column < size; ++column)
          result.at(row, column) = std::min(result.at(row, column),
                                            at(row, middle) + next.at(middle, column));
    return result;
  }

private:
  size_t size;
  std::vector<double> cells;
};

Table power(Table base, int exponent) {
  if (exponent == 1)
    return base;
  Table half = power(base, exponent / 2);
  return exponent % 2 ? half * half * base : half * half;
}

} // namespace

/// Terms with the variables that they mention, of which all but some have been
/// minimized out.
struct CostNetwork::Part {
  CostNetwork network;
  // What has which number here, by that in the whole network; -1: isn't here.
  std::vector<Variable> numbers;
  std::vector<int> maps, tables;
  Order order;
  double constant = 0;

  Variable add(Variable variable, int choices) {
    if (numbers[variable] < 0)
      numbers[variable] = network.addVariable(choices);
    return numbers[variable];
  }
  Costs add(const CostNetwork &whole, const Term &term) {
    Costs result;
    for (int map : term.maps) {
      if (maps[map] < 0)
        maps[map] = network.internMap(whole.maps[map].classOf);
      result.maps.push_back(maps[map]);
    }
    if (tables[term.table] < 0)
      tables[term.table] = network.internTable(whole.tables[term.table]);
    result.table = tables[term.table];
    return result;
  }
};

class CostNetwork::ChainSolver {
public:
  ChainSolver(const CostNetwork &network, const Chain &chain, int64_t tableLimit)
      : network(network), chain(chain), tableLimit(tableLimit), places(chain.home.size(), -1) {}
  std::optional<Solution> run();

private:
  bool isChain() {
    if (!sortVariables())
      return false;
    sortTerms();
    return findShared() && isApart();
  }
  bool sortVariables();
  void sortTerms();
  int ownerOf(const Term &term) const;
  bool sameTerm(int a, int b, int block) const;
  bool findShared();
  bool isApart() const;
  std::vector<Variable> shared(int block) const;
  Part partOf(const std::vector<int> &terms, int from, int to) const;
  void choose(const Part &part, int block, size_t state, std::vector<int> &choices) const;
  Table tableOf(const Part &part, int from, int to) const;
  void retrace(const Part &part, int from, int to, size_t state,
               std::vector<int> &choices) const;

  const CostNetwork &network;
  const Chain &chain;
  const int64_t tableLimit;
  std::vector<std::vector<Variable>> variables; ///< by block
  std::vector<int> places;                      ///< by variable: which of its block's it is
  std::vector<int> owned[3]; ///< terms of the block before the repeated one, of that, and after
  std::vector<int> outside;  ///< all other terms
  std::vector<int> sharedPlaces;
  size_t states = 1;
};

//===-- what is alike -----------------------------------------------------===//

bool CostNetwork::ChainSolver::sortVariables() {
  for (Variable variable = 0; variable < static_cast<Variable>(chain.home.size()); ++variable) {
    int home = chain.home[variable];
    if (home < 0)
      continue;
    if (home >= static_cast<int>(variables.size()))
      variables.resize(home + 1);
    places[variable] = static_cast<int>(variables[home].size());
    variables[home].push_back(variable);
  }
  if (chain.repeated < 2 || chain.repeated + 1 >= static_cast<int>(variables.size()))
    return false;
  auto sameDomain = [&](Variable a, Variable b) {
    return network.domains[a] == network.domains[b];
  };
  const std::vector<Variable> &block = variables[chain.repeated];
  for (int other : {chain.repeated - 1, chain.repeated + 1})
    if (!std::equal(block.begin(), block.end(), variables[other].begin(),
                    variables[other].end(), sameDomain))
      return false;
  return true;
}

/// The one of the three blocks whose variables, with those of the block before,
/// are all of the term's; or -1.
int CostNetwork::ChainSolver::ownerOf(const Term &term) const {
  int last = -1, first = static_cast<int>(variables.size());
  for (Variable variable : term.scope) {
    last = std::max(last, chain.home[variable]);
    first = std::min(first, chain.home[variable]);
  }
  bool isOne = last >= chain.repeated - 1 && last <= chain.repeated + 1 && first >= last - 1;
  return isOne ? last : -1;
}

void CostNetwork::ChainSolver::sortTerms() {
  for (size_t id = 0; id < network.terms.size(); ++id) {
    int owner = ownerOf(network.terms[id]);
    (owner < 0 ? outside : owned[owner - chain.repeated + 1]).push_back(static_cast<int>(id));
  }
}

/// Whether a term is to `block` what another is to the next.
bool CostNetwork::ChainSolver::sameTerm(int a, int b, int block) const {
  const Term &x = network.terms[a], &y = network.terms[b];
  if (x.table != y.table || x.maps != y.maps || x.scope.size() != y.scope.size())
    return false;
  for (size_t i = 0; i < x.scope.size(); ++i)
    if (chain.home[x.scope[i]] - block != chain.home[y.scope[i]] - block - 1 ||
        places[x.scope[i]] != places[y.scope[i]])
      return false;
  return true;
}

/// Finds what a block shares with the one before it, the same for all three.
bool CostNetwork::ChainSolver::findShared() {
  for (int i : {0, 1}) {
    int block = chain.repeated - 1 + i;
    if (!std::equal(owned[i].begin(), owned[i].end(), owned[i + 1].begin(), owned[i + 1].end(),
                    [&](int a, int b) { return sameTerm(a, b, block); }))
      return false;
  }
  for (int id : owned[1])
    for (Variable variable : network.terms[id].scope)
      if (chain.home[variable] == chain.repeated - 1)
        sharedPlaces.push_back(places[variable]);
  keepDistinct(sharedPlaces);
  for (int place : sharedPlaces) {
    int choices = network.domains[variables[chain.repeated][place]];
    const std::vector<Variable> &before = variables[chain.repeated - 2];
    if (place >= static_cast<int>(before.size()) || network.domains[before[place]] != choices)
      return false;
    states *= choices;
    if (states > kMostStates)
      return false;
  }
  return true;
}

/// Whether the rest of the network mentions nothing of the blocks but what the
/// last of them shares with the next.
bool CostNetwork::ChainSolver::isApart() const {
  for (int id : outside)
    for (Variable variable : network.terms[id].scope) {
      int home = chain.home[variable];
      bool isShared = home == chain.repeated + 1 &&
                      std::binary_search(sharedPlaces.begin(), sharedPlaces.end(),
                                         places[variable]);
      if (home >= chain.repeated - 1 && home <= chain.repeated + 1 && !isShared)
        return false;
    }
  return true;
}

//===-- tables ------------------------------------------------------------===//

std::vector<CostNetwork::Variable> CostNetwork::ChainSolver::shared(int block) const {
  std::vector<Variable> result;
  for (int place : sharedPlaces)
    result.push_back(variables[block][place]);
  return result;
}

/// These terms, minimized down to what two blocks share.
CostNetwork::Part CostNetwork::ChainSolver::partOf(const std::vector<int> &ids, int from,
                                                   int to) const {
  Part part;
  part.numbers.assign(network.domains.size(), -1);
  part.maps.assign(network.maps.size(), -1);
  part.tables.assign(network.tables.size(), -1);
  for (int block : {from, to})
    for (Variable variable : shared(block))
      part.add(variable, network.domains[variable]);
  std::vector<bool> keep(part.network.domains.size(), true);
  for (int id : ids) {
    const Term &term = network.terms[id];
    std::vector<Variable> scope;
    for (Variable variable : term.scope)
      scope.push_back(part.add(variable, network.domains[variable]));
    part.network.addTerm(std::move(scope), part.add(network, term));
  }
  keep.resize(part.network.domains.size(), false);
  part.constant = part.network.eliminateAll(keep, tableLimit, /*maySplit=*/false, part.order);
  return part;
}

/// Gives the variables that a block shares their choices in a state.
void CostNetwork::ChainSolver::choose(const Part &part, int block, size_t state,
                                      std::vector<int> &choices) const {
  std::vector<Variable> list = shared(block);
  for (size_t i = list.size(); i-- > 0; state /= network.domains[list[i]])
    choices[part.numbers[list[i]]] = static_cast<int>(state % network.domains[list[i]]);
}

Table CostNetwork::ChainSolver::tableOf(const Part &part, int from, int to) const {
  Table table(states);
  std::vector<int> live, choices(part.network.domains.size(), 0);
  for (size_t id = 0; id < part.network.terms.size(); ++id)
    if (part.network.terms[id].live)
      live.push_back(static_cast<int>(id));
  for (size_t row = 0; row < states; ++row)
    for (size_t column = 0; column < states; ++column) {
      choose(part, from, row, choices);
      choose(part, to, column, choices);
      double sum = part.constant;
      for (int id : live) {
        const Term &term = part.network.terms[id];
        sum += part.network.tables[term.table][part.network.entry(term, choices)];
      }
      table.at(row, column) = sum;
    }
  return table;
}

/// The best choices of a part's variables, both of its ends being in a state.
void CostNetwork::ChainSolver::retrace(const Part &part, int from, int to, size_t state,
                                       std::vector<int> &choices) const {
  std::vector<int> own(part.network.domains.size(), 0);
  choose(part, from, state, own);
  choose(part, to, state, own);
  for (auto it = part.order.rbegin(); it != part.order.rend(); ++it)
    own[it->variable] = part.network.bestChoice(it->bucket, it->variable, own);
  for (size_t variable = 0; variable < choices.size(); ++variable)
    if (Variable number = part.numbers[variable]; number >= 0)
      choices[variable] = own[number];
}

std::optional<CostNetwork::Solution> CostNetwork::ChainSolver::run() {
  if (!isChain())
    return std::nullopt;
  int before = chain.repeated - 2, after = chain.repeated + 1;
  Part block = partOf(owned[1], chain.repeated - 1, chain.repeated);
  if (block.network.wasSplit)
    return std::nullopt;
  Part rest = partOf(outside, before, after);
  if (rest.network.wasSplit)
    return std::nullopt;
  Table once = tableOf(block, chain.repeated - 1, chain.repeated);
  Table around = tableOf(rest, before, after);
  int count = chain.copies + 2;
  Table all = power(once, count);
  double best = kInfinity, alike = kInfinity;
  size_t state = 0;
  for (size_t row = 0; row < states; ++row) {
    for (size_t column = 0; column < states; ++column)
      best = std::min(best, around.at(row, column) + all.at(row, column));
    double cost = around.at(row, row) + count * once.at(row, row);
    if (cost < alike) {
      alike = cost;
      state = row;
    }
  }
  // Sums of the same costs differ by rounding.
  if (!(alike <= best + 1e-12 * std::abs(best)))
    return std::nullopt;
  Solution solution;
  solution.choices.assign(network.domains.size(), 0);
  retrace(rest, before, after, state, solution.choices);
  retrace(block, chain.repeated - 1, chain.repeated, state, solution.choices);
  const std::vector<Variable> &chosen = variables[chain.repeated];
  for (int other : {chain.repeated - 1, chain.repeated + 1})
    for (size_t i = 0; i < chosen.size(); ++i)
      solution.choices[variables[other][i]] = solution.choices[chosen[i]];
  solution.cost = network.cost(solution.choices) + (chain.copies - 1) * once.at(state, state);
  solution.bound = best;
  return solution;
}

std::optional<CostNetwork::Solution> CostNetwork::solveChain(const Chain &chain,
                                                             int64_t tableLimit) const {
  return ChainSolver(*this, chain, tableLimit).run();
}

} // namespace dtc::plan
