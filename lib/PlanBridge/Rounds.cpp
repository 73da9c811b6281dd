#include "Rounds.h"

#include "dtc/Dialect/Graph/Graph.h"

using namespace mlir;

namespace dtc::planbridge {

using sharding::FactorId;
using sharding::FactorKind;
using sharding::ShardingRule;
using sharding::TensorFactors;

std::vector<FactorId> rowFactors(const ShardingRule &rule) {
  std::vector<FactorId> row;
  for (const std::vector<FactorId> &dim : rule.operands[0])
    for (FactorId factor : dim)
      if (rule.factors[factor].kind != FactorKind::Rounds)
        row.push_back(factor);
  return row;
}

namespace {

/// Follows one factor through the ops of a decomposition.
class FactorWalk {
public:
  explicit FactorWalk(int64_t rowElements) : rowElements(rowElements) {}

  /// `tensor`: the factors of `value`.
  void seed(Value value, const TensorFactors &tensor, FactorId factor);
  bool visit(Operation &op);
  int numReductions() const { return reductions; }

private:
  int64_t rowElements;
  int reductions = 0;
  llvm::DenseMap<Value, size_t> places; ///< the dimension that has the factor
};

} // namespace

void FactorWalk::seed(Value value, const TensorFactors &tensor, FactorId factor) {
  for (size_t dim = 0; dim < tensor.size(); ++dim)
    if (llvm::is_contained(tensor[dim], factor))
      places[value] = dim;
}

/// False where the factor can't be followed further, or what is reduced isn't a value of each row.
bool FactorWalk::visit(Operation &op) {
  auto ruled = dyn_cast<ShardingRuleOpInterface>(&op);
  if (!ruled)
    return false;
  ShardingRule rule = ruled.getShardingRule();
  FactorId factor = -1;
  for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
    auto place = places.find(operand);
    if (place == places.end())
      continue;
    const std::vector<FactorId> &dim = rule.operands[i][place->second];
    if (dim.size() != 1 || (factor >= 0 && dim[0] != factor))
      return false;
    factor = dim[0];
  }
  if (factor < 0)
    return true;
  FactorKind kind = rule.factors[factor].kind;
  if (kind == FactorKind::Reduction) {
    ++reductions;
    return cast<ShapedType>(op.getResult(0).getType()).getNumElements() == rowElements;
  }
  for (auto [i, result] : llvm::enumerate(op.getResults()))
    seed(result, rule.results[i], factor);
  return kind == FactorKind::Parallel;
}

std::optional<int> roundsOver(Operation *op, const ShardingRule &rule, FactorId factor) {
  auto decomposable = dyn_cast<DecomposableOpInterface>(op);
  if (!decomposable)
    return std::nullopt;
  Block parts;
  OpBuilder builder(op->getContext()); // the block is in no region
  builder.setInsertionPointToEnd(&parts);
  if (failed(decomposable.decompose(builder)))
    return std::nullopt;
  int64_t rowElements = 1;
  for (FactorId row : rowFactors(rule))
    rowElements *= rule.factors[row].size;
  FactorWalk walk(rowElements);
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    walk.seed(operand, rule.operands[i], factor);
  if (!llvm::all_of(parts, [&](Operation &part) { return walk.visit(part); }))
    return std::nullopt;
  return walk.numReductions();
}

} // namespace dtc::planbridge
