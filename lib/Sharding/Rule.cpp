#include "dtc/Sharding/Ring.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

namespace dtc::sharding {

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

static std::string factorName(FactorId factor) {
  if (factor < 26)
    return std::string(1, static_cast<char>('a' + factor));
  return "f" + std::to_string(factor);
}

static std::string tensorsStr(const std::vector<TensorFactors> &tensors) {
  std::string result = "(";
  for (size_t i = 0; i < tensors.size(); ++i) {
    result += i ? ",[" : "[";
    for (size_t dim = 0; dim < tensors[i].size(); ++dim) {
      const std::vector<FactorId> &factors = tensors[i][dim];
      result += dim ? "," : "";
      if (factors.empty())
        result += "1";
      else if (factors.size() == 1)
        result += factorName(factors[0]);
      else
        for (size_t k = 0; k < factors.size(); ++k)
          result += (k ? " " : "(") + factorName(factors[k]) +
                    (k + 1 == factors.size() ? ")" : "");
    }
    result += "]";
  }
  return result + ")";
}

static std::string joined(const std::vector<std::string> &names) {
  std::string result;
  for (size_t i = 0; i < names.size(); ++i)
    result += (i ? "," : "") + names[i];
  return result;
}

std::string ShardingRule::str() const {
  std::string result = tensorsStr(operands) + "->" + tensorsStr(results);
  std::vector<std::string> sizes;
  for (size_t i = 0; i < factors.size(); ++i)
    sizes.push_back(factorName(i) + "=" + std::to_string(factors[i].size));
  result += " {" + joined(sizes) + "}";
  auto list = [&](const char *title, FactorKind kind, ReduceKind reduce) {
    std::vector<std::string> names;
    for (size_t i = 0; i < factors.size(); ++i)
      if (factors[i].kind == kind && (kind != FactorKind::Reduction || factors[i].reduce == reduce))
        names.push_back(factorName(i));
    if (!names.empty())
      result += std::string(" ") + title + "{" + joined(names) + "}";
  };
  list("reduce", FactorKind::Reduction, ReduceKind::Sum);
  list("max", FactorKind::Reduction, ReduceKind::Max);
  list("min", FactorKind::Reduction, ReduceKind::Min);
  list("rounds", FactorKind::Rounds, ReduceKind::Sum);
  list("whole", FactorKind::Whole, ReduceKind::Sum);
  if (!linear.empty()) {
    std::vector<std::string> sets;
    for (const std::vector<int> &set : linear) {
      std::vector<std::string> members;
      for (int operand : set)
        members.push_back(std::to_string(operand));
      sets.push_back("{" + joined(members) + "}");
    }
    result += " linear{" + joined(sets) + "}";
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

RuleBuilder::RuleBuilder(size_t numOperands, size_t numResults) {
  rule.operands.resize(numOperands);
  rule.results.resize(numResults);
}

FactorId RuleBuilder::factor(int64_t size, FactorKind kind, ReduceKind reduce) {
  rule.factors.push_back({size, kind, reduce});
  return static_cast<FactorId>(rule.factors.size()) - 1;
}

RuleBuilder &RuleBuilder::operandDim(int operand, FactorId factor) {
  return operandDims(operand, {factor});
}

RuleBuilder &RuleBuilder::resultDim(int result, FactorId factor) {
  return resultDims(result, {factor});
}

RuleBuilder &RuleBuilder::operandDims(int operand, std::vector<FactorId> compound) {
  std::erase_if(compound, [&](FactorId f) { return rule.factors[f].size == 1; });
  rule.operands[operand].push_back(std::move(compound));
  return *this;
}

RuleBuilder &RuleBuilder::resultDims(int result, std::vector<FactorId> compound) {
  std::erase_if(compound, [&](FactorId f) { return rule.factors[f].size == 1; });
  rule.results[result].push_back(std::move(compound));
  return *this;
}

RuleBuilder &RuleBuilder::linear(std::vector<int> operandSet) {
  rule.linear.push_back(std::move(operandSet));
  return *this;
}

ShardingRule RuleBuilder::build() { return std::move(rule); }

RuleBuilder RuleBuilder::elementwise(size_t numOperands, size_t numResults,
                                     const std::vector<int64_t> &shape) {
  RuleBuilder builder(numOperands, numResults);
  for (int64_t size : shape) {
    FactorId factor = builder.factor(size);
    for (size_t i = 0; i < numOperands; ++i)
      builder.operandDim(static_cast<int>(i), factor);
    for (size_t i = 0; i < numResults; ++i)
      builder.resultDim(static_cast<int>(i), factor);
  }
  return builder;
}

namespace {
/// Adjacent dimensions [begin, end) of a shape.
struct DimRange {
  size_t begin = 0, end = 0;
};
} // namespace

/// The products of leading sizes within the range, ascending, without 1 and
/// without repeats.
static void addCuts(const std::vector<int64_t> &shape, DimRange range, std::set<int64_t> &cuts) {
  int64_t product = 1;
  for (size_t dim = range.begin; dim < range.end; ++dim) {
    product *= shape[dim];
    if (product > 1)
      cuts.insert(product);
  }
}

/// Sizes of the common refinement of two ranges of equal product; empty when
/// there is none.
static std::vector<int64_t> refinement(const std::vector<int64_t> &from, DimRange fromRange,
                                       const std::vector<int64_t> &to, DimRange toRange) {
  std::set<int64_t> cuts;
  addCuts(from, fromRange, cuts);
  addCuts(to, toRange, cuts);
  std::vector<int64_t> sizes;
  int64_t last = 1;
  for (int64_t cut : cuts) {
    if (cut % last != 0)
      return {};
    sizes.push_back(cut / last);
    last = cut;
  }
  return sizes;
}

/// Hands the factors of a refinement out to the dimensions of one side.
static void distribute(const std::vector<int64_t> &shape, DimRange range,
                       const std::vector<FactorId> &factors, const std::vector<int64_t> &sizes,
                       TensorFactors &dims) {
  size_t next = 0;
  for (size_t dim = range.begin; dim < range.end; ++dim) {
    std::vector<FactorId> compound;
    for (int64_t product = 1; product < shape[dim]; product *= sizes[next++])
      compound.push_back(factors[next]);
    dims.push_back(std::move(compound));
  }
}

/// Advances both ranges to the next smallest pair of equal product.
static void nextGroup(const std::vector<int64_t> &from, DimRange &fromRange,
                      const std::vector<int64_t> &to, DimRange &toRange) {
  fromRange.begin = fromRange.end;
  toRange.begin = toRange.end;
  int64_t fromSize = 1, toSize = 1;
  do {
    if (fromSize <= toSize && fromRange.end < from.size())
      fromSize *= from[fromRange.end++];
    else if (toRange.end < to.size())
      toSize *= to[toRange.end++];
    else
      fromSize *= from[fromRange.end++];
  } while (fromSize != toSize);
}

ShardingRule RuleBuilder::reshape(const std::vector<int64_t> &from,
                                  const std::vector<int64_t> &to) {
  RuleBuilder builder(1, 1);
  TensorFactors fromDims, toDims;
  auto whole = [&](const std::vector<int64_t> &shape, DimRange range, TensorFactors &dims) {
    for (size_t dim = range.begin; dim < range.end; ++dim) {
      if (shape[dim] == 1)
        dims.push_back({});
      else
        dims.push_back({builder.factor(shape[dim], FactorKind::Whole)});
    }
  };
  DimRange fromRange, toRange;
  auto elements = [](const std::vector<int64_t> &shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  };
  if (elements(from) == 0 || elements(from) != elements(to)) {
    whole(from, {0, from.size()}, fromDims);
    whole(to, {0, to.size()}, toDims);
    fromRange.end = from.size();
    toRange.end = to.size();
  }
  while (fromRange.end < from.size() || toRange.end < to.size()) {
    nextGroup(from, fromRange, to, toRange);
    std::vector<int64_t> sizes = refinement(from, fromRange, to, toRange);
    std::set<int64_t> cuts;
    addCuts(from, fromRange, cuts);
    if (sizes.empty() && !cuts.empty()) {
      whole(from, fromRange, fromDims);
      whole(to, toRange, toDims);
      continue;
    }
    std::vector<FactorId> factors;
    for (int64_t size : sizes)
      factors.push_back(builder.factor(size));
    distribute(from, fromRange, factors, sizes, fromDims);
    distribute(to, toRange, factors, sizes, toDims);
  }
  builder.rule.operands[0] = std::move(fromDims);
  builder.rule.results[0] = std::move(toDims);
  builder.linear({0});
  return builder.build();
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

bool OpSharding::uses(AxisId axis) const {
  for (const AxisList &axes : factors)
    if (std::find(axes.begin(), axes.end(), axis) != axes.end())
      return true;
  return std::any_of(pending.begin(), pending.end(),
                     [&](const Pending &p) { return p.axis == axis; });
}

/// Why a compound dimension would not be cut into contiguous blocks, or "".
static std::string checkCompounds(const ShardingRule &rule, const OpSharding &sharding,
                                  const Mesh &mesh, const std::vector<TensorFactors> &tensors) {
  for (const TensorFactors &tensor : tensors)
    for (const std::vector<FactorId> &compound : tensor) {
      FactorId unsplit = -1;
      for (FactorId factor : compound) {
        if (unsplit >= 0 && !sharding.factors[factor].empty())
          return "factor " + factorName(factor) +
                 " of a compound dimension is split, but not completely the one before it: " +
                 factorName(unsplit);
        if (mesh.size(sharding.factors[factor]) != rule.factors[factor].size)
          unsplit = factor;
      }
    }
  return "";
}

static std::string checkPending(const ShardingRule &rule, const OpSharding &sharding) {
  for (const OpSharding::Pending &pending : sharding.pending)
    if (pending.linearSet < 0 || pending.linearSet >= static_cast<int>(rule.linear.size()))
      return "no such linear set: " + std::to_string(pending.linearSet);
  return "";
}

/// Whether the axes of a factor were counted at one before it, round which tensors go.
static bool closesRing(const ShardingRule &rule, const OpSharding &sharding, size_t factor) {
  auto first = sharding.factors.begin(), last = first + static_cast<ptrdiff_t>(factor);
  auto other = std::find(first, last, sharding.factors[factor]);
  return !sharding.factors[factor].empty() && other != last &&
         std::find(other + 1, last, sharding.factors[factor]) == last &&
         mayGoRound(rule, static_cast<FactorId>(other - first), static_cast<FactorId>(factor));
}

std::string check(const ShardingRule &rule, const OpSharding &sharding, const Mesh &mesh) {
  if (sharding.factors.size() != rule.factors.size())
    return "sharding has " + std::to_string(sharding.factors.size()) + " factors, the rule " +
           std::to_string(rule.factors.size());
  AxisUses uses(mesh);
  for (size_t i = 0; i < rule.factors.size(); ++i) {
    const AxisList &axes = sharding.factors[i];
    if (!closesRing(rule, sharding, i))
      for (AxisId axis : axes)
        if (std::string error = uses.add(axis); !error.empty())
          return error;
    if (!axes.empty() && rule.factors[i].kind == FactorKind::Whole)
      return "factor may not be split: " + factorName(i);
    if (rule.factors[i].size % mesh.size(axes) != 0)
      return "factor " + factorName(i) + " of size " + std::to_string(rule.factors[i].size) +
             " is not divisible by " + std::to_string(mesh.size(axes));
  }
  for (const OpSharding::Pending &pending : sharding.pending)
    if (std::string error = uses.add(pending.axis); !error.empty())
      return error;
  if (std::string error = checkPending(rule, sharding); !error.empty())
    return error;
  if (std::string error = checkCompounds(rule, sharding, mesh, rule.operands); !error.empty())
    return error;
  return checkCompounds(rule, sharding, mesh, rule.results);
}

bool needsRounds(const ShardingRule &rule, const OpSharding &sharding) {
  for (size_t i = 0; i < rule.factors.size() && i < sharding.factors.size(); ++i)
    if (rule.factors[i].kind == FactorKind::Rounds && !sharding.factors[i].empty())
      return true;
  return false;
}

static TensorSharding dimsSharding(const TensorFactors &tensor, const OpSharding &sharding) {
  TensorSharding result = TensorSharding::replicated(tensor.size());
  for (size_t dim = 0; dim < tensor.size(); ++dim)
    for (FactorId factor : tensor[dim])
      result.dims[dim].insert(result.dims[dim].end(), sharding.factors[factor].begin(),
                              sharding.factors[factor].end());
  return result;
}

bool occurs(const TensorFactors &tensor, FactorId factor) {
  return std::any_of(tensor.begin(), tensor.end(), [&](const std::vector<FactorId> &compound) {
    return std::find(compound.begin(), compound.end(), factor) != compound.end();
  });
}

TensorSharding operandSharding(const ShardingRule &rule, const OpSharding &sharding, size_t i) {
  TensorSharding result = dimsSharding(rule.operands[i], sharding);
  for (const OpSharding::Pending &pending : sharding.pending) {
    const std::vector<int> &set = rule.linear[pending.linearSet];
    if (std::find(set.begin(), set.end(), static_cast<int>(i)) != set.end())
      result.partial.push_back({pending.axis, ReduceKind::Sum});
  }
  std::sort(result.partial.begin(), result.partial.end());
  return result;
}

TensorSharding resultSharding(const ShardingRule &rule, const OpSharding &sharding, size_t i) {
  TensorSharding result = dimsSharding(rule.results[i], sharding);
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    auto factor = static_cast<FactorId>(f);
    if (sharding.factors[f].empty() || rule.factors[f].kind == FactorKind::Rounds ||
        occurs(rule.results[i], factor) ||
        std::none_of(rule.operands.begin(), rule.operands.end(),
                     [&](const TensorFactors &t) { return occurs(t, factor); }))
      continue;
    for (AxisId axis : sharding.factors[f])
      if (!result.splits(axis)) // else a ring, whose steps add up
        result.partial.push_back({axis, rule.factors[f].reduce});
  }
  for (const OpSharding::Pending &pending : sharding.pending)
    result.partial.push_back({pending.axis, ReduceKind::Sum});
  std::sort(result.partial.begin(), result.partial.end());
  return result;
}

} // namespace dtc::sharding
