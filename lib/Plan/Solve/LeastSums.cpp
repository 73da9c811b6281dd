// The sums of a bucket's tables, least over a variable: CostNetwork::leastSums.
#include "dtc/Plan/Solve/CostNetwork.h"

#include <algorithm>
#include <array>
#include <limits>

namespace dtc::plan {

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

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
  std::vector<double> byChoice();

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
  void addUp(size_t firstChanged);
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

void CostNetwork::LeastSums::addUp(size_t firstChanged) {
  for (size_t term = firstChanged; term + 1 < rows.size(); ++term) {
    const double *before = sums[term].data(), *costs = rows[term].byChoice();
    double *__restrict after = sums[term + 1].data();
    for (size_t choice = 0; choice < choices; ++choice)
      after[choice] = before[choice] + costs[choice];
  }
}

double CostNetwork::LeastSums::least(size_t firstChanged) {
  addUp(firstChanged);
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

/// The least sum of each choice, whatever the neighbours are.
std::vector<double> CostNetwork::LeastSums::byChoice() {
  std::vector<double> result(choices, kInfinity);
  size_t firstChanged = 0;
  for (size_t entry = 0, all = bucket.entries(); entry < all; ++entry) {
    addUp(firstChanged);
    const double *before = sums.back().data(), *costs = rows.back().byChoice();
    double *__restrict least = result.data();
    for (size_t choice = 0; choice < choices; ++choice) {
      const double sum = before[choice] + costs[choice];
      least[choice] = sum < least[choice] ? sum : least[choice];
    }
    firstChanged = advance();
  }
  return result;
}

std::vector<double> CostNetwork::leastByChoice(const Bucket &bucket, size_t choices) const {
  return LeastSums(*this, bucket, choices).byChoice();
}

std::vector<double> CostNetwork::leastSums(const Bucket &bucket, size_t choices) const {
  if (bucket.terms.empty())
    return std::vector<double>(bucket.entries(), 0.0);
  return LeastSums(*this, bucket, choices).run();
}

} // namespace dtc::plan
