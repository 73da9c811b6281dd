#include "BatchRules.h"

#include "Reshapes.h"

using namespace mlir;
using dtc::sharding::Factor;
using dtc::sharding::FactorId;
using dtc::sharding::FactorKind;
using dtc::sharding::ShardingRule;
using dtc::sharding::TensorFactors;

namespace dtc::raise {

std::optional<BatchPlace> moveThroughReshape(const BatchPlace &place, ArrayRef<int64_t> from,
                                             ArrayRef<int64_t> to, int64_t batch) {
  // Elements more major than the batch.
  const int64_t outside = product(from.take_front(place.dim)) * place.outer;
  std::optional<BatchPlace> inside;
  int64_t before = 1;
  for (size_t i = 0; i < to.size() && before <= outside; before *= to[i++]) {
    if (outside % before != 0)
      continue;
    const int64_t outer = outside / before;
    if (outer * batch > to[i] || to[i] % (outer * batch) != 0)
      continue;
    const BatchPlace found{int64_t(i), outer, to[i] / (outer * batch)};
    // A batch of one fits nearly everywhere, and each place is right as long as
    // all ops agree. Best is a dimension of its own, next the leading part of
    // one ([s,1,(h e)] -> [s,h,e]) but for that of the features: [s,1,h,e] ->
    // [s,(h e)] merges it with the positions.
    if (batch > 1 || (outer == 1 && found.inner == 1))
      return found;
    const bool features = product(to.drop_front(i + 1)) == 1;
    if (!inside || (outer == 1 && inside->outer != 1 && !features))
      inside = found;
  }
  return inside;
}

namespace {
/// One factor per dimension; dimensions are tied by giving them the same factor.
class RuleMaker {
public:
  explicit RuleMaker(Operation *op) {
    rule.operands.resize(op->getNumOperands());
    rule.results.resize(op->getNumResults());
  }
  FactorId factor(int64_t size, FactorKind kind = FactorKind::Parallel) {
    rule.factors.push_back({size, kind, {}});
    return rule.factors.size() - 1;
  }
  /// New factors for the dimensions of a tensor.
  SmallVector<FactorId> factors(Value tensor) {
    return llvm::map_to_vector(graph::shapeOf(tensor),
                               [&](int64_t size) { return factor(size); });
  }
  void forbid(FactorId id) { rule.factors[id].kind = FactorKind::Whole; }
  void operand(unsigned i, ArrayRef<FactorId> dims) { assign(rule.operands[i], dims); }
  void result(unsigned i, ArrayRef<FactorId> dims) { assign(rule.results[i], dims); }
  ShardingRule rule;

private:
  static void assign(TensorFactors &tensor, ArrayRef<FactorId> dims) {
    for (FactorId id : dims)
      tensor.push_back({id});
  }
};
} // namespace

/// All tensors that have the rank of the first result share its dimensions;
/// `forbidden` may not hold the batch.
static ShardingRule identityRule(Operation *op, ArrayRef<int64_t> forbidden = {}) {
  RuleMaker maker(op);
  auto dims = maker.factors(op->getResult(0));
  for (int64_t dim : forbidden)
    maker.forbid(dims[dim]);
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    maker.operand(i, dims);
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    maker.result(i, dims);
  return maker.rule;
}

static ShardingRule contractRule(graph::ContractOp op) {
  RuleMaker maker(op);
  SmallVector<FactorId> ids;
  for (auto [index, size] : llvm::enumerate(op.getIndexSizes()))
    ids.push_back(maker.factor(size, llvm::is_contained(op.getResultIndices(), index)
                                         ? FactorKind::Parallel
                                         : FactorKind::Reduction));
  auto pick = [&](ArrayRef<int64_t> indices) {
    return llvm::map_to_vector(indices, [&](int64_t index) { return ids[index]; });
  };
  maker.operand(0, pick(op.getLhsIndices()));
  maker.operand(1, pick(op.getRhsIndices()));
  maker.result(0, pick(op.getResultIndices()));
  return maker.rule;
}

static ShardingRule gatherRule(graph::GatherOp op) {
  RuleMaker maker(op);
  auto table = maker.factors(op.getTable()), indices = maker.factors(op.getIndices());
  maker.forbid(table[op.getAxis()]);
  maker.operand(0, table);
  maker.operand(1, indices);
  SmallVector<FactorId> result(ArrayRef(table).take_front(op.getAxis()));
  result.append(indices);
  result.append(table.begin() + op.getAxis() + 1, table.end());
  maker.result(0, result);
  return maker.rule;
}

/// The first `shared` dimensions of every operand and result are common; the
/// others may not hold the batch. Vectors (scales, biases, weights) are apart.
static ShardingRule leadingRule(Operation *op, ArrayRef<unsigned> operands, int64_t shared) {
  RuleMaker maker(op);
  SmallVector<FactorId> lead;
  for (int64_t i = 0; i < shared; ++i)
    lead.push_back(maker.factor(graph::shapeOf(op->getOperand(operands[0]))[i]));
  auto dims = [&](Value tensor, bool leads) {
    SmallVector<FactorId> result;
    for (auto [i, size] : llvm::enumerate(graph::shapeOf(tensor)))
      result.push_back(leads && int64_t(i) < shared ? lead[i]
                                                    : maker.factor(size, FactorKind::Whole));
    return result;
  };
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    maker.operand(i, dims(op->getOperand(i), llvm::is_contained(operands, i)));
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    maker.result(i, dims(op->getResult(i), true));
  return maker.rule;
}

static ShardingRule dimsRule(Operation *op, Value input, ArrayRef<int64_t> resultDims) {
  RuleMaker maker(op);
  auto dims = maker.factors(input);
  maker.operand(0, dims);
  maker.result(0, llvm::map_to_vector(resultDims, [&](int64_t dim) { return dims[dim]; }));
  return maker.rule;
}

static ShardingRule sliceRule(Operation *op, Value input, Value result) {
  RuleMaker maker(op);
  auto dims = maker.factors(input);
  SmallVector<FactorId> after = dims;
  for (auto [i, size] : llvm::enumerate(graph::shapeOf(result)))
    if (size != graph::shapeOf(input)[i]) {
      maker.forbid(dims[i]);
      after[i] = maker.factor(size, FactorKind::Whole);
    }
  maker.operand(0, dims);
  maker.result(0, after);
  return maker.rule;
}

static ShardingRule concatRule(graph::ConcatOp op) {
  RuleMaker maker(op);
  auto dims = maker.factors(op.getResult());
  maker.forbid(dims[op.getDim()]);
  for (auto [i, part] : llvm::enumerate(op.getInputs())) {
    SmallVector<FactorId> own = dims;
    own[op.getDim()] =
        maker.factor(graph::shapeOf(part)[op.getDim()], FactorKind::Whole);
    maker.operand(i, own);
  }
  maker.result(0, dims);
  return maker.rule;
}

static ShardingRule reduceRule(graph::ReduceOp op) {
  Shape kept;
  for (int64_t i = 0; i < int64_t(graph::shapeOf(op.getInput()).size()); ++i)
    if (!llvm::is_contained(op.getDims(), i))
      kept.push_back(i);
  ShardingRule rule = dimsRule(op, op.getInput(), kept);
  for (int64_t dim : op.getDims())
    rule.factors[rule.operands[0][dim][0]].kind = FactorKind::Reduction;
  return rule;
}

static ShardingRule broadcastRule(graph::BroadcastOp op) {
  RuleMaker maker(op);
  auto dims = maker.factors(op.getResult());
  maker.operand(0, llvm::map_to_vector(op.getDims(), [&](int64_t dim) { return dims[dim]; }));
  maker.result(0, dims);
  return maker.rule;
}

ShardingRule rankedRule(Operation *op) {
  using namespace graph;
  const int64_t rank = op->getNumOperands() ? shapeOf(op->getOperand(0)).size() : 0;
  return llvm::TypeSwitch<Operation *, ShardingRule>(op)
      .Case([](ContractOp op) { return contractRule(op); })
      .Case([](GatherOp op) { return gatherRule(op); })
      .Case([](BroadcastOp op) { return broadcastRule(op); })
      .Case([](ReduceOp op) { return reduceRule(op); })
      .Case([](ConcatOp op) { return concatRule(op); })
      .Case([](TransposeOp op) { return dimsRule(op, op.getInput(), op.getPerm()); })
      .Case<SliceOp, PadOp>(
          [](auto op) { return sliceRule(op, op.getInput(), op.getResult()); })
      .Case<SoftmaxOp, CumSumOp>(
          [](auto op) { return identityRule(op, {int64_t(op.getDim())}); })
      .Case<LayerNormOp, RmsNormOp, TopKOp>(
          [&](auto op) { return leadingRule(op, {0}, rank - 1); })
      .Case([&](PickOp op) { return leadingRule(op, {0, 1}, rank - 1); })
      .Case([](AttentionOp op) { return leadingRule(op, {0, 1, 2, 3}, 1); })
      .Case<ConvOp, MaxPoolOp>([](auto op) { return leadingRule(op, {0}, 1); })
      .Default([](Operation *op) {
        return actsElementwise(op) || op->getNumOperands() == 0
                   ? identityRule(op)
                   : leadingRule(op, {}, 0);
      });
}

std::optional<BatchFactor> factorOf(const ShardingRule &rule, const TensorFactors &dims,
                                    const BatchPlace &place, int64_t batch) {
  int64_t before = 1;
  std::optional<BatchFactor> found;
  for (FactorId id : dims[place.dim]) {
    const int64_t size = rule.factors[id].size;
    if (place.outer % before == 0) {
      const int64_t outer = place.outer / before;
      if (outer * batch <= size && size % (outer * batch) == 0)
        found = BatchFactor{id, outer, size / (outer * batch)};
    }
    before *= size;
    if (found && before > place.outer)
      break;
  }
  return found;
}

std::optional<BatchPlace> placeOf(const ShardingRule &rule, const TensorFactors &dims,
                                  const BatchFactor &factor) {
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    int64_t before = 1, after = 1;
    bool found = false;
    for (FactorId id : dims[dim]) {
      if (id == factor.factor)
        found = true;
      else
        (found ? after : before) *= rule.factors[id].size;
    }
    if (found)
      return BatchPlace{int64_t(dim), before * factor.outer, factor.inner * after};
  }
  return std::nullopt;
}

} // namespace dtc::raise
