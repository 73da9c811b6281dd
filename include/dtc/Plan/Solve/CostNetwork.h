// Minimizing a sum of cost tables over discrete variables, exactly.
//
// A term costs by the classes its variables' choices fall into. With choices {0,1,2} of x in the
// classes {0,0,1}, a term over x has a table of two entries. In planning a choice is how an op is
// sharded, and a class what that means for one tensor; many choices look alike from outside.
//
// Solved by bucket elimination. A variable is minimized out of the sum of the terms that mention
// it, which gives one new term over its neighbours. Equal tables are kept once, and an elimination
// that was done before (an identical layer) isn't done again. Where a table would grow beyond the
// limit the bucket is split (mini-buckets). The result is then a bound, and the gap between bound
// and assignment is reported. Such a bound holds for each choice, too. Choices whose bound lies
// above the assignment are left out before larger tables are made (UsefulChoices.cpp). Layers that
// are alike keep all choices, as fewer would make each of them another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

namespace dtc::plan {

class CostNetwork {
public:
  using Variable = int32_t;
  using Choices = std::vector<std::vector<int>>; ///< some of each variable

  Variable addVariable(int choices);
  /// What a term costs, whatever its variables are; of this network.
  struct Costs {
    std::vector<int> maps; ///< ids of class maps
    int table = 0;
  };
  /// `classes[i]` maps the choices of the i-th variable to classes, numbered without
  /// gaps; `costs` has one entry per combination, row-major. Infinity forbids a combination.
  Costs intern(const std::vector<std::vector<int>> &classes, std::vector<double> costs);
  /// Variables of a scope are distinct. Gives the term's number.
  int addTerm(std::vector<Variable> scope, const Costs &costs);
  int addTerm(std::vector<Variable> scope, const std::vector<std::vector<int>> &classes,
              std::vector<double> costs) {
    return addTerm(std::move(scope), intern(classes, std::move(costs)));
  }
  /// Gives a term other costs of the same classes, before anything is solved.
  void setCosts(int term, std::vector<double> costs);

  struct Solution {
    std::vector<int> choices;
    double cost = 0;
    double bound = 0; ///< no assignment costs less
  };
  /// `tableLimit`: entries of the largest table. Small tables come first. Until the bound proves
  /// the assignment, choices are left out of which the bound says that they cost more. Larger
  /// tables follow where that leaves out few.
  static constexpr int64_t kTableLimit = int64_t{1} << 22;
  Solution solve(int64_t tableLimit = kTableLimit);
  /// Sums that eliminations minimized over a variable's choices: of the tables that were made, of
  /// parts of a bucket that were balanced, and of those that were looked through for choices.
  size_t entries() const { return entriesMade; }

  /// Variables in blocks that follow each other. The blocks `repeated` - 1, `repeated` and
  /// `repeated` + 1 have the same terms in their order. Each block's are on its own variables and
  /// those of the block before.
  struct Chain {
    std::vector<int> home; ///< by variable: its block, or -1
    int repeated = 0;
    int copies = 1; ///< how often that block occurs
  };
  /// The best assignment of the whole chain that has those three blocks and all copies alike. It is
  /// nullopt where they are not as said, or where an assignment in which they differ costs less.
  /// `cost` and `bound` are the whole chain's.
  ///
  /// All that is outside of those blocks is minimized out to a table O[s, t] over the variables
  /// that a block shares with the next. One block is minimized out to a table A[s, t]. The best is
  /// the least entry of O + A^n, by min-plus product. It is attained with all blocks alike if O[s,
  /// s] + n A[s, s] is as little for an s.
  std::optional<Solution> solveChain(const Chain &chain, int64_t tableLimit = kTableLimit) const;

  double cost(const std::vector<int> &choices) const;

private:
  static constexpr int64_t kFirstTableLimit = int64_t{1} << 11;
  static constexpr int64_t kTableLimitGrowth = 4;

  class ChainSolver;
  class LeastSums;
  class UsefulChoices;
  struct Part;
  struct ClassMap {
    std::vector<int> classOf; ///< by choice
    int count = 0;
    double logCount = 0; ///< to base 2
  };
  struct Term {
    std::vector<Variable> scope;
    std::vector<int> maps; ///< ids of class maps
    int table = 0;
    bool live = true;
  };
  /// One term of a bucket, addressed by the classes of the neighbours.
  struct Addressed {
    int table = 0;
    std::size_t own = 0; ///< stride of the eliminated variable's class
    const std::vector<int> *ownClass = nullptr;
    std::vector<std::vector<std::size_t>> offsets; ///< by neighbour and its joint class
  };
  struct Bucket {
    std::vector<std::vector<int>> joint; ///< by neighbour, the classes of its choices
    std::vector<int> counts;             ///< of these classes
    std::vector<Addressed> terms;
    std::size_t entries() const;
  };
  struct Eliminated {
    std::vector<int> maps; ///< of the neighbours
    int table = -1;
    double constant = 0;
  };

  /// Terms that were minimized to one, by the ids of these.
  struct Minimized {
    std::vector<int> bucket;
    int result = -1;     ///< none: where nothing but the variable is mentioned
    double constant = 0; ///< what the result is less by
  };
  struct Step {
    Variable variable = 0;
    std::vector<int> bucket;
    std::vector<Minimized> parts; ///< of the bucket
  };
  using Order = std::vector<Step>;

  /// Numbers the combinations of classes that the choices of a variable have in
  /// several maps, in the order of the choices.
  static std::vector<int> jointClasses(const std::vector<const std::vector<int> *> &classMaps,
                                       int choices);
  int internMap(std::vector<int> classOf);
  int internTable(std::vector<double> costs);
  int addLive(Term term);
  std::size_t entry(const Term &term, const std::vector<int> &choices) const;
  std::vector<Variable> neighbours(const std::vector<int> &bucket, Variable variable) const;
  double logSize(const std::vector<int> &bucket, Variable variable) const;
  std::vector<std::vector<int>> split(const std::vector<int> &bucket, Variable variable,
                                      int64_t limit) const;
  std::vector<int> keyOf(const std::vector<int> &bucket, Variable variable,
                         const std::vector<Variable> &others) const;
  Minimized eliminate(const std::vector<int> &bucket, Variable variable,
                      std::set<Variable> &touched);
  Bucket address(const std::vector<int> &bucket, Variable variable,
                 const std::vector<Variable> &others) const;
  /// The least sum over the variable's choices, for each combination of joint classes of the
  /// neighbours (row-major).
  std::vector<double> leastSums(const Bucket &bucket, std::size_t choices) const;
  /// The least sum over all else, for each choice of the variable.
  std::vector<double> leastByChoice(const Bucket &bucket, std::size_t choices) const;
  const std::vector<double> &leastByChoice(const std::vector<int> &part, Variable variable);
  void balance(std::vector<std::vector<int>> &parts, Variable variable);
  Eliminated minimize(const std::vector<int> &bucket, Variable variable,
                      const std::vector<Variable> &others);
  std::vector<int> liveTerms(Variable variable) const;
  /// Eliminates all variables but those to keep, the one with the smallest bucket first.
  /// `eliminate(bucket, variable, touched)` makes the new terms, of `touched` variables, or returns
  /// false to stop.
  template <typename Eliminate>
  bool eliminateInOrder(const std::vector<bool> &keep, Eliminate eliminate);
  double eliminateAll(const std::vector<bool> &keep, int64_t tableLimit, bool maySplit,
                      Order &order);
  Solution solveOnce(int64_t tableLimit, Order &order);
  /// By variable, the choices with which an assignment may cost no more than the bound and `slack`.
  Choices usefulChoices(const Order &order, double slack);
  /// Whether most of what was eliminated had been before.
  bool repeatsItself(const Order &order) const;
  /// With these choices alone, before anything is minimized out.
  CostNetwork restricted(const Choices &useful) const;
  Choices allChoices() const;
  double logAssignments() const;
  int bestChoice(const std::vector<int> &bucket, Variable variable,
                 std::vector<int> &choices) const;

  std::vector<int> domains;
  std::vector<double> logDomains; ///< to base 2
  std::vector<Term> terms;
  std::size_t originalTerms = 0;
  std::vector<std::vector<int>> termsOf; ///< by variable, also dead ones
  std::vector<ClassMap> maps;
  std::vector<std::vector<double>> tables;
  std::map<std::vector<int>, int> mapIds;
  std::unordered_map<uint64_t, std::vector<int>> tableIds;
  std::map<std::vector<int>, Eliminated> memo;
  std::map<std::vector<int>, std::vector<double>> leastMemo; ///< leastByChoice
  bool wasSplit = false; ///< a bucket was too large for one table
  size_t entriesMade = 0;
};

template <typename Eliminate>
bool CostNetwork::eliminateInOrder(const std::vector<bool> &keep, Eliminate eliminate) {
  using Key = std::pair<double, Variable>;
  std::set<Key> queue;
  std::vector<double> priority(domains.size());
  auto enqueue = [&](Variable variable) {
    if (keep[variable])
      return;
    priority[variable] = logSize(liveTerms(variable), variable);
    queue.insert({priority[variable], variable});
  };
  for (Variable variable = 0; variable < static_cast<Variable>(domains.size()); ++variable)
    enqueue(variable);
  while (!queue.empty()) {
    Variable variable = queue.begin()->second;
    queue.erase(queue.begin());
    std::vector<int> bucket = liveTerms(variable);
    std::set<Variable> touched;
    if (!eliminate(bucket, variable, touched))
      return false;
    for (int id : bucket)
      terms[id].live = false;
    for (Variable other : touched) {
      if (!keep[other])
        queue.erase({priority[other], other});
      enqueue(other);
    }
  }
  return true;
}

} // namespace dtc::plan
