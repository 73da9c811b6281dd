#include "dtc/Sharding/Rule.h"

#include <algorithm>
#include <numeric>

namespace dtc::sharding {

namespace {

/// Builds the choice that follows: operand by operand, the largest first, every
/// axis goes to the factor it arrives at if the choice stays legal.
class Follower {
public:
  Follower(const ShardingRule &rule, const Mesh &mesh, bool allowRounds)
      : rule(rule), mesh(mesh), allowRounds(allowRounds) {
    choice.factors.resize(rule.factors.size());
  }

  /// Returns whether anything was added.
  bool takeDims(const TensorFactors &tensor, const TensorSharding &operand);
  void takePartial(const std::vector<TensorSharding> &operands,
                   const std::vector<int64_t> &operandBytes);
  OpSharding take() { return std::move(choice); }

private:
  bool tryAssign(AxisId axis, FactorId factor);
  bool takeDim(const std::vector<FactorId> &compound, const AxisList &axes);
  int64_t elements(const TensorFactors &tensor) const;
  bool passes(const std::vector<int> &set, AxisId axis,
              const std::vector<TensorSharding> &operands) const;

  const ShardingRule &rule;
  const Mesh &mesh;
  bool allowRounds;
  OpSharding choice;
};

} // namespace

bool Follower::tryAssign(AxisId axis, FactorId factor) {
  if (choice.uses(axis) ||
      (!allowRounds && rule.factors[factor].kind == FactorKind::Rounds))
    return false;
  choice.factors[factor].push_back(axis);
  if (check(rule, choice, mesh).empty())
    return true;
  choice.factors[factor].pop_back();
  return false;
}

/// Lays the axes of one dimension onto its factors, major to minor. Stops at
/// the first that does not fit: the minor axes then would not be in place.
bool Follower::takeDim(const std::vector<FactorId> &compound, const AxisList &axes) {
  bool added = false;
  size_t factor = 0, taken = 0; // `taken` axes of compound[factor] are accounted for
  for (AxisId axis : axes) {
    while (factor < compound.size() &&
           taken == choice.factors[compound[factor]].size() && taken > 0 &&
           mesh.size(choice.factors[compound[factor]]) == rule.factors[compound[factor]].size) {
      ++factor;
      taken = 0;
    }
    if (factor == compound.size())
      break;
    AxisList &present = choice.factors[compound[factor]];
    if (taken < present.size()) {
      if (present[taken] != axis)
        break;
    } else if (tryAssign(axis, compound[factor])) {
      added = true;
    } else {
      break;
    }
    ++taken;
  }
  return added;
}

bool Follower::takeDims(const TensorFactors &tensor, const TensorSharding &operand) {
  bool added = false;
  for (size_t dim = 0; dim < tensor.size() && dim < operand.dims.size(); ++dim)
    added |= takeDim(tensor[dim], operand.dims[dim]);
  return added;
}

int64_t Follower::elements(const TensorFactors &tensor) const {
  int64_t result = 1;
  for (const std::vector<FactorId> &compound : tensor)
    for (FactorId factor : compound)
      result *= rule.factors[factor].size;
  return result;
}

bool Follower::passes(const std::vector<int> &set, AxisId axis,
                      const std::vector<TensorSharding> &operands) const {
  int64_t before = 0, after = 0;
  for (int operand : set) {
    const std::vector<Partial> &partial = operands[operand].partial;
    if (std::find(partial.begin(), partial.end(), Partial{axis, ReduceKind::Sum}) == partial.end())
      return false;
    before += elements(rule.operands[operand]);
  }
  for (const TensorFactors &result : rule.results)
    after += elements(result);
  return !set.empty() && after <= before; // a sum that grows is better resolved first
}

void Follower::takePartial(const std::vector<TensorSharding> &operands,
                           const std::vector<int64_t> &operandBytes) {
  for (AxisId axis = 0; axis < static_cast<AxisId>(mesh.axes.size()); ++axis) {
    int best = -1;
    int64_t bestBytes = -1;
    for (size_t set = 0; set < rule.linear.size(); ++set) {
      if (choice.uses(axis) || !passes(rule.linear[set], axis, operands))
        continue;
      int64_t bytes = 0;
      for (int operand : rule.linear[set])
        bytes += operandBytes[operand];
      if (bytes > bestBytes) {
        best = static_cast<int>(set);
        bestBytes = bytes;
      }
    }
    if (best >= 0)
      choice.pending.push_back({axis, best});
  }
}

OpSharding follow(const ShardingRule &rule, const std::vector<TensorSharding> &operands,
                  const std::vector<int64_t> &operandBytes, const Mesh &mesh, bool allowRounds) {
  std::vector<size_t> order(operands.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return operandBytes[a] > operandBytes[b]; });
  Follower follower(rule, mesh, allowRounds);
  // Again while something is added: the minor part of a compound dimension fits
  // once another operand has brought the major part.
  for (bool added = true; added;) {
    added = false;
    for (size_t operand : order)
      added |= follower.takeDims(rule.operands[operand], operands[operand]);
  }
  follower.takePartial(operands, operandBytes);
  return follower.take();
}

} // namespace dtc::sharding
