#include "dtc/Plan/Plan/Padding.h"

#include <algorithm>
#include <numeric>

namespace dtc::plan {

using sharding::FactorId;
using sharding::TensorFactors;

namespace {

/// Spreads what the model has of padded dimensions over values and factors, until nothing changes.
class PaddingFinder {
public:
  explicit PaddingFinder(Problem &problem)
      : problem(problem), own(problem.values.size()), factors(problem.ops.size()) {
    for (size_t value = 0; value < own.size(); ++value)
      own[value] = problem.values[value].shape;
    for (size_t op = 0; op < factors.size(); ++op)
      for (const sharding::Factor &factor : problem.ops[op].rule->factors)
        factors[op].push_back(factor.size);
  }

  void seed(ValueId id, const std::vector<int64_t> &filled) {
    own[id] = filled;
    Value &value = problem.values[id];
    value.padding = value.elements() -
                    std::accumulate(filled.begin(), filled.end(), int64_t{1}, std::multiplies<>());
  }

  void run() {
    const auto count = static_cast<OpId>(problem.ops.size());
    do {
      isChanged = false;
      for (OpId op = 0; op < count; ++op)
        visit(op);
      for (OpId op = count; op-- > 0;)
        visit(op);
    } while (isChanged);
    for (OpId op = 0; op < count; ++op)
      countFlops(op);
  }

private:
  void visit(OpId id) {
    const Op &op = problem.ops[id];
    forEachDim(op, [&](ValueId value, size_t dim, const std::vector<FactorId> &of) {
      toFactor(id, own[value][dim], of);
    });
    forEachDim(op, [&](ValueId value, size_t dim, const std::vector<FactorId> &of) {
      toDimension(id, value, dim, of);
    });
  }

  template <typename Visit> static void forEachDim(const Op &op, Visit visit) {
    auto eachOf = [&](const std::vector<ValueId> &values,
                      const std::vector<TensorFactors> &tensors) {
      for (size_t i = 0; i < values.size(); ++i)
        for (size_t dim = 0; dim < tensors[i].size(); ++dim)
          if (!tensors[i][dim].empty())
            visit(values[i], dim, tensors[i][dim]);
    };
    eachOf(op.operands, op.rule->operands);
    eachOf(op.results, op.rule->results);
  }

  /// Elements for each of the first factor.
  int64_t restOf(OpId id, const std::vector<FactorId> &of) const {
    int64_t rest = 1;
    for (size_t i = 1; i < of.size(); ++i)
      rest *= problem.ops[id].rule->factors[of[i]].size;
    return rest;
  }

  void toFactor(OpId id, int64_t size, const std::vector<FactorId> &of) {
    const int64_t rest = restOf(id, of);
    int64_t &factor = factors[id][of.front()];
    if (size % rest != 0 || size / rest >= factor)
      return;
    factor = size / rest;
    isChanged = true;
  }

  /// Files alone say what parameters have.
  void toDimension(OpId id, ValueId value, size_t dim, const std::vector<FactorId> &of) {
    const bool isPadded = factors[id][of.front()] < problem.ops[id].rule->factors[of.front()].size;
    const int64_t size = factors[id][of.front()] * restOf(id, of);
    if (!isPadded || problem.values[value].kind == ValueKind::Parameter || size >= own[value][dim])
      return;
    own[value][dim] = size;
    isChanged = true;
  }

  void countFlops(OpId id) {
    Op &op = problem.ops[id];
    double flops = op.flops;
    for (size_t factor = 0; factor < factors[id].size(); ++factor)
      if (factors[id][factor] < op.rule->factors[factor].size) // of others it would only round
        flops = flops * double(factors[id][factor]) / double(op.rule->factors[factor].size);
    op.padding = op.flops - flops;
  }

  Problem &problem;
  std::vector<std::vector<int64_t>> own;     ///< by value: its shape without padding
  std::vector<std::vector<int64_t>> factors; ///< by op: their sizes without padding
  bool isChanged = false;
};

} // namespace

void markPadding(Problem &problem, const std::map<ValueId, std::vector<int64_t>> &filled) {
  if (filled.empty())
    return;
  PaddingFinder finder(problem);
  for (const auto &[value, shape] : filled)
    finder.seed(value, shape);
  finder.run();
}

} // namespace dtc::plan
