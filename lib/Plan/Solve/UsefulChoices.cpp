// The choices that may be of a better assignment: CostNetwork::usefulChoices.
#include "dtc/Plan/Solve/CostNetwork.h"

#include <algorithm>
#include <limits>

namespace dtc::plan {

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Eliminations with split buckets find the least sum where each part may give the variable another
/// choice. The parts are a forest: one's result is a term of another one's. From the roots down,
/// each part is told what all that isn't below it costs beyond the bound, by entry of its result.
/// With its own terms this is the excess of each choice: no assignment with it costs less than the
/// bound and the excess.
class CostNetwork::UsefulChoices {
public:
  UsefulChoices(const CostNetwork &network, double slack)
      : network(network), slack(slack), rest(network.terms.size()) {}
  Choices run(const Order &order);
  size_t entriesWeighed() const { return weighed; }

private:
  /// A part's result that another one reads, as a term of that one.
  struct Read {
    const Addressed *term = nullptr;
    std::size_t index = 0; ///< of the term in the bucket
    std::vector<double> *excess = nullptr;
  };
  void visit(const Minimized &part, Variable variable, std::vector<bool> &isUseful);
  void weigh(const Bucket &bucket, const std::vector<size_t> &at, double outside,
             const std::vector<Read> &reads);

  const CostNetwork &network;
  const double slack;
  std::vector<std::vector<double>> rest; ///< by term that was made: what all else costs beyond
  std::vector<double> sums;              ///< by choice
  std::vector<bool> isWithin;            ///< by choice
  size_t weighed = 0;                    ///< entries of neighbours
};

CostNetwork::Choices CostNetwork::UsefulChoices::run(const Order &order) {
  Choices result(network.domains.size());
  for (auto step = order.rbegin(); step != order.rend(); ++step) {
    const int choices = network.domains[step->variable];
    std::vector<bool> isUseful(choices, true);
    for (const Minimized &part : step->parts)
      visit(part, step->variable, isUseful);
    for (int choice = 0; choice < choices; ++choice)
      if (isUseful[choice])
        result[step->variable].push_back(choice);
  }
  return result;
}

/// Adds up the terms where the neighbours are as `at` says.
void CostNetwork::UsefulChoices::weigh(const Bucket &bucket, const std::vector<size_t> &at,
                                       double outside, const std::vector<Read> &reads) {
  std::fill(sums.begin(), sums.end(), outside);
  for (size_t i = 0; i < bucket.terms.size(); ++i) {
    const Addressed &term = bucket.terms[i];
    const double *costs = network.tables[term.table].data() + at[i];
    for (size_t choice = 0; choice < sums.size(); ++choice)
      sums[choice] += costs[term.own * size_t((*term.ownClass)[choice])];
  }
  for (size_t choice = 0; choice < sums.size(); ++choice) {
    if (!(sums[choice] <= slack))
      continue;
    isWithin[choice] = true;
    for (const Read &read : reads) {
      double &least =
          (*read.excess)[at[read.index] + read.term->own * size_t((*read.term->ownClass)[choice])];
      least = std::min(least, sums[choice]);
    }
  }
}

void CostNetwork::UsefulChoices::visit(const Minimized &part, Variable variable,
                                       std::vector<bool> &isUseful) {
  const std::vector<Variable> others = network.neighbours(part.bucket, variable);
  const Bucket bucket = network.address(part.bucket, variable, others);
  const std::vector<double> *made =
      part.result < 0 ? nullptr : &network.tables[network.terms[part.result].table];
  const std::vector<double> outside =
      made ? std::move(rest[part.result]) : std::vector<double>(1, 0.0);
  std::vector<Read> reads;
  for (size_t i = 0; i < part.bucket.size(); ++i)
    if (const int id = part.bucket[i]; id >= static_cast<int>(network.originalTerms)) {
      rest[id].assign(network.tables[network.terms[id].table].size(), kInfinity);
      reads.push_back({&bucket.terms[i], i, &rest[id]});
    }
  sums.resize(isUseful.size());
  isWithin.assign(isUseful.size(), false);
  std::vector<int> classes(others.size(), 0);
  std::vector<size_t> at(bucket.terms.size());
  for (size_t entry = 0; entry < outside.size(); ++entry) {
    // No sum of the entry is less.
    if (outside[entry] + (made ? (*made)[entry] : 0) <= slack) {
      for (size_t i = 0; i < at.size(); ++i) {
        at[i] = 0;
        for (size_t other = 0; other < classes.size(); ++other)
          if (!bucket.terms[i].offsets[other].empty())
            at[i] += bucket.terms[i].offsets[other][classes[other]];
      }
      weigh(bucket, at, outside[entry] - part.constant, reads);
      ++weighed;
    }
    for (size_t i = classes.size(); i-- > 0;) {
      if (++classes[i] < bucket.counts[i])
        break;
      classes[i] = 0;
    }
  }
  for (const Read &read : reads) {
    const std::vector<double> &table = network.tables[read.term->table];
    for (size_t i = 0; i < table.size(); ++i)
      if ((*read.excess)[i] < kInfinity)
        (*read.excess)[i] -= table[i];
  }
  for (size_t choice = 0; choice < isUseful.size(); ++choice)
    isUseful[choice] = isUseful[choice] && isWithin[choice];
}

CostNetwork::Choices CostNetwork::usefulChoices(const Order &order, double slack) {
  UsefulChoices search(*this, slack);
  Choices result = search.run(order);
  entriesMade += search.entriesWeighed();
  return result;
}

CostNetwork CostNetwork::restricted(const Choices &useful) const {
  CostNetwork result;
  result.entriesMade = entriesMade;
  for (const std::vector<int> &choices : useful)
    result.addVariable(static_cast<int>(choices.size()));
  for (size_t id = 0; id < originalTerms; ++id) {
    const Term &term = terms[id];
    std::vector<std::vector<int>> classes;
    std::vector<size_t> offsets = {0}; // in the table, of the entries that are left
    for (size_t i = 0; i < term.scope.size(); ++i) {
      const ClassMap &map = maps[term.maps[i]];
      std::vector<int> numbers(map.count, -1), own, left;
      for (int choice : useful[term.scope[i]]) {
        int &number = numbers[map.classOf[choice]];
        if (number < 0) {
          number = static_cast<int>(left.size());
          left.push_back(map.classOf[choice]);
        }
        own.push_back(number);
      }
      std::vector<size_t> next;
      for (size_t offset : offsets)
        for (int one : left)
          next.push_back(offset * map.count + one);
      offsets = std::move(next);
      classes.push_back(std::move(own));
    }
    std::vector<double> costs;
    for (size_t offset : offsets)
      costs.push_back(tables[term.table][offset]);
    result.addTerm(term.scope, classes, std::move(costs));
  }
  return result;
}

} // namespace dtc::plan
