// The sharding rule of an op: the one thing an op says about parallelism.
//
// A rule names factors, the independent sizes of the op's iteration space. It maps every dimension
// of every operand and result to a list of factors, major to minor. A matrix product of x[b,s,k]
// and w[k,n]:
//
//   factors   b=8 s=32 k=64 n=256       k is a reduction(sum)
//   operands  x: [b] [s] [k]    w: [k] [n]
//   results   y: [b] [s] [n]
//
// A reshape [b,s,h] -> [(b s),h] has compound dimensions:
//
//   operand   [b] [s] [h]       result  [b s] [h]
//
// Sharding an op means assigning mesh axes to its factors (OpSharding). From rule and assignment
// alone follow what the operands must look like, what the results look like, and the local shapes.
// (A sharded reduction factor leaves results partial.) Within a compound dimension a factor can be
// split only if all factors before it are split completely. Else a shard would not be one block.
//
// Kinds of factor:
//   parallel   appears in results; may be split
//   reduction  is summed (max, min) away; splitting leaves results partial
//   rounds     splitting needs communication inside the op (softmax over a
//              split dimension): the op is decomposed into simpler ops first
//   whole      may not be split
//
// A split parallel or reduction factor that occurs in an operand but not in a result leaves that
// result partial, by the factor's `reduce`. Take the gradient of a layer norm, x[b,s,h], dy[b,s,h]
// -> dx[b,s,h], dscale[h]. The factors b and s are parallel, and where they are split dscale is
// partial(sum). A factor that no operand has (the rows of a scatter, an iota) leaves results
// without it complete. So does a split rounds factor: the communication inside the op has finished
// them.
//
// A result may also be pending because an operand was: `linear` lists sets of
// operands such that the op is linear in the set jointly, all others held
// fixed. An addition has {{0,1}}, a matrix product {{0},{1}}: if exactly the
// operands of one set are partial(sum) over an axis, the results are too.
#pragma once

#include "dtc/Sharding/TensorSharding.h"

namespace dtc::sharding {

enum class FactorKind : uint8_t { Parallel, Reduction, Rounds, Whole };

using FactorId = int;

struct Factor {
  int64_t size = 1;
  FactorKind kind = FactorKind::Parallel;
  ReduceKind reduce = ReduceKind::Sum; ///< for reductions
  bool operator==(const Factor &) const = default;
};

/// One entry per dimension: its factors, major to minor. A dimension of size 1
/// has no factor.
using TensorFactors = std::vector<std::vector<FactorId>>;

/// Whether a factor is among those of one of the dimensions.
bool occurs(const TensorFactors &tensor, FactorId factor);

struct ShardingRule {
  std::vector<Factor> factors;
  std::vector<TensorFactors> operands;
  std::vector<TensorFactors> results;
  std::vector<std::vector<int>> linear;

  bool operator==(const ShardingRule &) const = default;
  /// `([b,s,k],[k,n])->([b,s,n]) {b=8,s=32,k=64,n=256} reduce{k}` with factors
  /// named a, b, c... in order; for tests and messages.
  std::string str() const;
};

/// Builds a rule factor by factor.
class RuleBuilder {
public:
  RuleBuilder(size_t numOperands, size_t numResults);
  FactorId factor(int64_t size, FactorKind kind = FactorKind::Parallel,
                  ReduceKind reduce = ReduceKind::Sum);
  /// Appends a dimension with one factor; sizes of 1 append a dimension with none.
  RuleBuilder &operandDim(int operand, FactorId factor);
  RuleBuilder &resultDim(int result, FactorId factor);
  RuleBuilder &operandDims(int operand, std::vector<FactorId> compound);
  RuleBuilder &resultDims(int result, std::vector<FactorId> compound);
  RuleBuilder &linear(std::vector<int> operandSet);
  ShardingRule build();

  /// Every operand and result has the same `shape`, one parallel factor a
  /// dimension. `linear` sets are added by the caller.
  static RuleBuilder elementwise(size_t numOperands, size_t numResults,
                                 const std::vector<int64_t> &shape);
  /// Factors of a reshape from `from` to `to`: the common refinement, compound
  /// where one side merges. `[4,6] -> [24]` gives `[a][b] -> [a b]`.
  /// Where sizes have no common refinement (`[4,6] -> [3,8]`) the dimensions
  /// concerned get one whole factor.
  static ShardingRule reshape(const std::vector<int64_t> &from, const std::vector<int64_t> &to);

private:
  ShardingRule rule;
};

/// The choice a plan makes for one op.
struct OpSharding {
  std::vector<AxisList> factors; ///< one entry per factor of the rule
  struct Pending {
    AxisId axis = 0;
    int linearSet = 0; ///< index into ShardingRule::linear
    auto operator<=>(const Pending &) const = default;
  };
  std::vector<Pending> pending; ///< partial(sum) axes that pass through

  bool operator==(const OpSharding &) const = default;
  bool uses(AxisId axis) const;
};

/// Empty when `sharding` is a legal choice for `rule` on `mesh`; else why not.
/// Rounds factors are legal here; who cannot decompose asks `needsRounds`.
std::string check(const ShardingRule &rule, const OpSharding &sharding, const Mesh &mesh);
bool needsRounds(const ShardingRule &rule, const OpSharding &sharding);

/// What operand `i` must look like, and what result `i` will look like.
TensorSharding operandSharding(const ShardingRule &rule, const OpSharding &sharding, size_t i);
TensorSharding resultSharding(const ShardingRule &rule, const OpSharding &sharding, size_t i);

/// The choice that follows the operands as they come, so that as little as possible has to be
/// communicated. Operands with more bytes win conflicts (ties: the lower index). Partial axes pass
/// where the op is linear. `operandBytes` are global sizes. Axes that cannot be used legally are
/// left out. `allowRounds`: whether rounds factors may be split.
OpSharding follow(const ShardingRule &rule, const std::vector<TensorSharding> &operands,
                  const std::vector<int64_t> &operandBytes, const Mesh &mesh, bool allowRounds);

} // namespace dtc::sharding
