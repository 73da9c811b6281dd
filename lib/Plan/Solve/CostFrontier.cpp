// Elimination with sets of points instead of least costs: CostNetwork::frontier.
#include "dtc/Plan/Solve/CostNetwork.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace dtc::plan {

namespace {

/// The choices of some variables, by what they come to; and how they came about.
struct Partial {
  double cost = 0;
  CostNetwork::Held held{};
  int choice = 0; ///< of the variable that was eliminated
  /// Which points of the bucket's other sets: all but the last one's as a Link, -1: there is
  /// no set before it; and the last one's, until that has a link of its own.
  int64_t from = -1, at = 0;
};
using Points = std::vector<Partial>;
struct Set {
  Points points;
  double slack = 0; ///< as CostNetwork::Frontier's
};

/// A point of one set after a point of each set before.
struct Link {
  int64_t before = -1, at = 0;
};

/// What was kept of the amounts held, in their order: none of both is less than another's.
class Staircase {
public:
  /// False where something kept holds no more.
  bool add(const CostNetwork::Held &held) {
    auto after = steps.upper_bound(held[0]);
    if (after != steps.begin() && std::prev(after)->second <= held[1])
      return false;
    while (after != steps.end() && after->second >= held[1])
      after = steps.erase(after);
    steps.insert_or_assign(held[0], held[1]);
    return true;
  }

private:
  std::map<double, double> steps;
};

/// Leaves points than which none holds less for a cost that is as little to `step`; and
/// the cheapest, at `least`.
void keepBest(Points &set, double least, double step) {
  auto binOf = [=](const Partial &point) {
    return point.cost > least ? std::floor((point.cost - least) / step) : -1;
  };
  std::sort(set.begin(), set.end(), [&](const Partial &a, const Partial &b) {
    double x = binOf(a), y = binOf(b);
    return std::tie(x, a.held, a.cost, a.choice, a.from, a.at) <
           std::tie(y, b.held, b.cost, b.choice, b.from, b.at);
  });
  Staircase kept;
  std::erase_if(set, [&](const Partial &point) { return !kept.add(point.held); });
}

/// Some of the points, among them the cheapest and those that hold least of either.
Points apart(const Points &set, size_t most) {
  auto leastBy = [&](auto amount) {
    return size_t(std::min_element(set.begin(), set.end(),
                                   [&](const Partial &a, const Partial &b) {
                                     return amount(a) < amount(b);
                                   }) -
                  set.begin());
  };
  std::set<size_t> places = {
      leastBy([](const Partial &point) { return std::pair(point.cost, point.held[0]); }),
      leastBy([](const Partial &point) { return std::pair(point.held[0], point.cost); }),
      leastBy([](const Partial &point) { return std::pair(point.held[1], point.cost); })};
  for (size_t i = 0; i < most && places.size() < most; ++i)
    places.insert(i * set.size() / most);
  Points result;
  for (size_t place : places)
    result.push_back(set[place]);
  return result;
}

/// At most that many points: ever coarser costs, and of those that hold different
/// amounts for the same cost such as are apart.
void bound(Set &set, size_t most) {
  constexpr double rounding = 1e-12, coarsest = 0.25;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Points &points = set.points;
  double largest = 0, least = infinity;
  for (const Partial &point : points) {
    largest = std::max(largest, std::abs(point.cost));
    least = std::min(least, point.cost);
  }
  double step = std::max(rounding * largest, std::numeric_limits<double>::min());
  keepBest(points, least, step);
  if (points.size() <= most)
    return;
  for (step = std::max(step, 1e-4 * (largest - least)); points.size() > most; step *= 2) {
    if (step > coarsest * (largest - least)) {
      points = apart(points, most);
      set.slack = infinity;
      return;
    }
    keepBest(points, least, step);
    set.slack += step;
  }
}

/// All sums of a point of each.
Set sums(const Set &a, const Set &b) {
  Set result{{}, a.slack + b.slack};
  result.points.reserve(a.points.size() * b.points.size());
  for (const Partial &x : a.points)
    for (size_t i = 0; i < b.points.size(); ++i) {
      const Partial &y = b.points[i];
      result.points.push_back({x.cost + y.cost,
                               {x.held[0] + y.held[0], x.held[1] + y.held[1]},
                               x.choice,
                               x.from,
                               static_cast<int64_t>(i)});
    }
  return result;
}

} // namespace

/// Derived terms have sets; their tables are numbered -1, -2, ...
class CostNetwork::FrontierSolver {
public:
  FrontierSolver(CostNetwork network, const std::vector<std::vector<Held>> &held,
                 const FrontierLimits &limits)
      : network(std::move(network)), held(held), limits(limits) {}
  std::optional<Frontier> run();

private:
  bool eliminate(std::vector<int> ids, Variable variable, std::set<Variable> &touched);
  bool mayLook(size_t more);
  void leaveOut(Set &set) const;
  bool join(Set &set, const Set &more);
  Set combine(const Bucket &bucket, Variable variable, const std::vector<int> &at);
  std::vector<Set> &setsOf(const Term &term) { return sets[-1 - term.table]; }
  std::vector<int> trace(size_t point);

  CostNetwork network;
  const std::vector<std::vector<Held>> &held;
  const FrontierLimits limits;
  struct Step {
    Variable variable;
    std::vector<int> bucket;
    int made; ///< the derived term
  };
  std::vector<std::vector<Set>> sets; ///< by derived table and entry
  std::vector<Link> links; ///< of all points of sets
  std::vector<Step> steps;
  int root = -1; ///< the last derived term of no variable, which has all those before
  int64_t looked = 0; ///< sums of points
  bool isTooLarge = false;
};

/// Whether that many more sums may be looked at.
bool CostNetwork::FrontierSolver::mayLook(size_t more) {
  looked += static_cast<int64_t>(more);
  isTooLarge = isTooLarge || looked > limits.sums;
  return !isTooLarge;
}

void CostNetwork::FrontierSolver::leaveOut(Set &set) const {
  std::erase_if(set.points, [&](const Partial &point) {
    return point.held[0] > limits.most[0] || point.held[1] > limits.most[1];
  });
}

/// Sums of these points and one of `more` each; false where it would take too much.
bool CostNetwork::FrontierSolver::join(Set &set, const Set &more) {
  if (!mayLook(set.points.size() * more.points.size()))
    return false;
  set = sums(set, more);
  leaveOut(set);
  bound(set, limits.points);
  for (Partial &point : set.points) {
    links.push_back({point.from, point.at});
    point.from = static_cast<int64_t>(links.size()) - 1;
    point.at = 0;
  }
  return true;
}

/// The points of one entry; none where it would take too much.
Set CostNetwork::FrontierSolver::combine(const Bucket &bucket, Variable variable,
                                         const std::vector<int> &at) {
  Set result;
  for (int choice = 0; choice < network.domains[variable]; ++choice) {
    Set own{{{0, held[variable][choice], choice, -1, 0}}, 0};
    for (const Addressed &term : bucket.terms) {
      size_t entry = term.at(at) + (term.ownClass ? term.own * (*term.ownClass)[choice] : 0);
      if (term.table < 0) {
        if (!join(own, sets[-1 - term.table][entry]))
          return {};
        continue;
      }
      double cost = network.tables[term.table][entry];
      if (!std::isfinite(cost))
        own = {};
      for (Partial &point : own.points)
        point.cost += cost;
    }
    result.points.insert(result.points.end(), own.points.begin(), own.points.end());
    result.slack = std::max(result.slack, own.slack);
  }
  if (!mayLook(result.points.size()))
    return {};
  leaveOut(result);
  bound(result, limits.points);
  return result;
}

bool CostNetwork::FrontierSolver::eliminate(std::vector<int> ids, Variable variable,
                                            std::set<Variable> &touched) {
  std::vector<Variable> others = network.neighbours(ids, variable);
  if (others.empty() && root >= 0)
    ids.push_back(root);
  Bucket bucket = network.address(ids, variable, others);
  if (bucket.entries() > limits.entries)
    return false;
  std::vector<Set> table;
  std::vector<int> at(others.size(), 0);
  for (size_t entry = 0; entry < bucket.entries() && !isTooLarge; ++entry, bucket.advance(at))
    table.push_back(combine(bucket, variable, at));
  sets.push_back(std::move(table));
  Term term{others, {}, -static_cast<int>(sets.size()), true};
  for (std::vector<int> &classOf : bucket.joint)
    term.maps.push_back(network.internMap(std::move(classOf)));
  steps.push_back({variable, std::move(ids), network.addLive(std::move(term))});
  if (others.empty())
    root = steps.back().made;
  touched.insert(others.begin(), others.end());
  return !isTooLarge;
}

/// The choices behind a point of the root.
std::vector<int> CostNetwork::FrontierSolver::trace(size_t point) {
  std::vector<int> choices(network.domains.size(), 0);
  std::vector<int64_t> wanted(network.terms.size(), 0);
  wanted[root] = static_cast<int64_t>(point);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const Term &term = network.terms[step->made];
    const Set &from = setsOf(term)[network.entry(term, choices)];
    const Partial &made = from.points[wanted[step->made]];
    choices[step->variable] = made.choice;
    int64_t link = made.from;
    for (auto id = step->bucket.rbegin(); id != step->bucket.rend(); ++id) {
      const Term &part = network.terms[*id];
      if (part.table >= 0)
        continue;
      wanted[*id] = links[link].at;
      link = links[link].before;
    }
  }
  return choices;
}

std::optional<CostNetwork::Frontier> CostNetwork::FrontierSolver::run() {
  std::vector<bool> keep(network.domains.size(), false);
  bool isComplete =
      network.eliminateInOrder(keep, [&](const std::vector<int> &bucket, Variable variable,
                                         std::set<Variable> &touched) {
        return eliminate(bucket, variable, touched);
      });
  if (!isComplete)
    return std::nullopt;
  Frontier frontier;
  if (root < 0)
    return frontier;
  const Set &set = setsOf(network.terms[root])[0];
  const Points &all = set.points;
  frontier.slack = set.slack;
  for (size_t point = 0; point < all.size(); ++point)
    frontier.points.push_back({trace(point), all[point].cost, all[point].held});
  std::stable_sort(frontier.points.begin(), frontier.points.end(),
                   [](const Point &a, const Point &b) { return a.cost < b.cost; });
  return frontier;
}

std::optional<CostNetwork::Frontier>
CostNetwork::frontier(const std::vector<std::vector<Held>> &held,
                      const FrontierLimits &limits) const {
  return FrontierSolver(*this, held, limits).run();
}

} // namespace dtc::plan
