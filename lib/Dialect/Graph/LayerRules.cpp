// Sharding rules and costs of the layer ops.
#include "Rules.h"

#include "dtc/Dialect/Graph/AttentionPartOps.h"
#include "dtc/Dialect/Graph/ZeroRows.h"

#include <limits>

using namespace mlir;
using namespace dtc;
using namespace dtc::graph;

//===-- activation and softmax --------------------------------------------===//

static OpRule pointwise(Operation *op, UnitFactors units) {
  OpRule rule(op, units);
  SmallVector<FactorId> dims = rule.factors(shapeOf(op->getResult(0)));
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    rule.operand(i, dims);
  rule.result(0, dims);
  return rule;
}

ShardingRule ActivationOp::buildShardingRule(UnitFactors units) {
  return pointwise(*this, units).build();
}
ShardingRule ActivationGradOp::buildShardingRule(UnitFactors units) {
  return pointwise(*this, units).linear({1}).build();
}

static OpCost activationCost(Activation kind) {
  const bool isPiecewise = kind == Activation::Relu || kind == Activation::Relu6 ||
                           kind == Activation::HardSwish || kind == Activation::HardSigmoid;
  return {.kind = OpKind::Elementwise, .dear = !isPiecewise};
}

OpCost ActivationOp::getCost() { return activationCost(getKind()); }
OpCost ActivationGradOp::getCost() { return activationCost(getKind()); }

static OpRule alongDim(Operation *op, UnitFactors units, int64_t dim) {
  OpRule rule(op, units);
  SmallVector<FactorId> dims;
  for (auto [i, size] : llvm::enumerate(shapeOf(op->getResult(0))))
    dims.push_back(rule.factor(size, static_cast<int64_t>(i) == dim ? FactorKind::Rounds
                                                                    : FactorKind::Parallel));
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    rule.operand(i, dims);
  rule.result(0, dims);
  return rule;
}

ShardingRule SoftmaxOp::buildShardingRule(UnitFactors units) {
  return alongDim(*this, units, getDim()).build();
}
ShardingRule SoftmaxGradOp::buildShardingRule(UnitFactors units) {
  return alongDim(*this, units, getDim()).linear({1}).build();
}

OpCost SoftmaxOp::getCost() { return {OpKind::Reduction}; }
OpCost SoftmaxGradOp::getCost() { return {OpKind::Reduction}; }

//===-- normalizations ----------------------------------------------------===//

namespace {
/// Rows are parallel, the normalized columns rounds. Sharded rows leave the
/// gradients of scale and bias, which have no rows, partial.
struct NormRule {
  NormRule(Operation *op, UnitFactors units, Value input) : rule(op, units) {
    rows = rule.factors(shapeOf(input).drop_back());
    column = rule.factor(shapeOf(input).back(), FactorKind::Rounds);
    all = rows;
    all.push_back(column);
  }
  OpRule rule;
  SmallVector<FactorId> rows, all;
  FactorId column;
};
} // namespace

ShardingRule LayerNormOp::buildShardingRule(UnitFactors units) {
  NormRule norm(*this, units, getInput());
  norm.rule.operand(0, norm.all);
  for (unsigned i = 1; i < getNumOperands(); ++i) // scale, bias
    norm.rule.operand(i, norm.column);
  return norm.rule.result(0, norm.all).result(1, norm.rows).result(2, norm.rows).build();
}

ShardingRule LayerNormGradOp::buildShardingRule(UnitFactors units) {
  NormRule norm(*this, units, getInput());
  norm.rule.operand(0, norm.all).operand(1, norm.rows).operand(2, norm.rows).operand(3, norm.all);
  if (getScale())
    norm.rule.operand(4, norm.column);
  return norm.rule.result(0, norm.all).result(1, norm.column).result(2, norm.column)
      .linear({3}).build();
}

ShardingRule RmsNormOp::buildShardingRule(UnitFactors units) {
  NormRule norm(*this, units, getInput());
  norm.rule.operand(0, norm.all);
  if (getScale())
    norm.rule.operand(1, norm.column);
  return norm.rule.result(0, norm.all).result(1, norm.rows).build();
}

ShardingRule RmsNormGradOp::buildShardingRule(UnitFactors units) {
  NormRule norm(*this, units, getInput());
  norm.rule.operand(0, norm.all).operand(1, norm.rows).operand(2, norm.all);
  if (getScale())
    norm.rule.operand(3, norm.column);
  return norm.rule.result(0, norm.all).result(1, norm.column).linear({2}).build();
}

OpCost LayerNormOp::getCost() { return {OpKind::Normalization}; }
OpCost LayerNormGradOp::getCost() { return {OpKind::Normalization}; }
OpCost RmsNormOp::getCost() { return {OpKind::Normalization}; }
OpCost RmsNormGradOp::getCost() { return {OpKind::Normalization}; }

/// Mean and inverse deviation of each row.
bool LayerNormOp::isStatistic(unsigned result) { return result > 0; }
bool RmsNormOp::isStatistic(unsigned result) { return result > 0; }

bool dtc::graph::keepsZeroRows(Operation *op) {
  auto norm = dyn_cast<RmsNormOp>(op);
  return norm &&
         static_cast<float>(norm.getEps().convertToDouble()) >= std::numeric_limits<float>::min();
}

//===-- attention ---------------------------------------------------------===//

namespace {
/// Factors of q[b,s,(g r),e], k[b,t,g,e], v[b,t,g,f].
struct AttentionFactors {
  FactorId b, g, r, s, t, e, f;
};
} // namespace

/// Rows are normalized over the keys, so those are rounds. Where the mask is causal queries are
/// too. A shard would have to know where it begins, as the iota in the decomposition does. And e
/// and f are inside the softmax or its gradient.
static AttentionFactors attentionFactors(OpRule &rule, Value query, Value key, Value value,
                                         bool causal) {
  ArrayRef<int64_t> q = shapeOf(query), k = shapeOf(key);
  FactorKind queries = causal ? FactorKind::Rounds : FactorKind::Parallel;
  AttentionFactors dims;
  dims.b = rule.factor(q[0]);
  dims.g = rule.factor(k[2]);
  dims.r = rule.factor(q[2] / k[2]);
  dims.s = rule.factor(q[1], queries);
  dims.t = rule.factor(k[1], FactorKind::Rounds);
  dims.e = rule.factor(q[3], FactorKind::Whole);
  dims.f = rule.factor(shapeOf(value)[3], FactorKind::Whole);
  return dims;
}

using Append = OpRule &(OpRule::*)(unsigned, ArrayRef<FactorId>);

/// Appends [b, s, (g r), last] through `add`, which takes compounds.
static void queryLike(OpRule &rule, Append add, unsigned index, const AttentionFactors &dims,
                      FactorId last) {
  (rule.*add)(index, dims.b);
  (rule.*add)(index, dims.s);
  (rule.*add)(index, {dims.g, dims.r});
  (rule.*add)(index, last);
}
/// [b, t, g, last]
static void keyLike(OpRule &rule, Append add, unsigned index, const AttentionFactors &dims,
                    FactorId last) {
  for (FactorId id : {dims.b, dims.t, dims.g, last})
    (rule.*add)(index, id);
}
/// The three of them, or their gradients.
static void queryKeyValue(OpRule &rule, Append add, const AttentionFactors &dims) {
  queryLike(rule, add, 0, dims, dims.e);
  keyLike(rule, add, 1, dims, dims.e);
  keyLike(rule, add, 2, dims, dims.f);
}
/// [b, (g r), s]
static void rowLike(OpRule &rule, Append add, unsigned index, const AttentionFactors &dims) {
  (rule.*add)(index, dims.b);
  (rule.*add)(index, {dims.g, dims.r});
  (rule.*add)(index, dims.s);
}

/// [b, (g r), s, t], of which all but t may be 1 and repeat: these aren't divided.
static void biasOperand(OpRule &rule, unsigned index, Value bias, Value query,
                        const AttentionFactors &dims) {
  ArrayRef<int64_t> shape = shapeOf(bias), q = shapeOf(query);
  auto append = [&](unsigned dim, int64_t size, ArrayRef<FactorId> factors) {
    if (shape[dim] == size)
      rule.operandCompound(index, factors);
    else
      rule.operand(index, rule.factor(1));
  };
  append(0, q[0], dims.b);
  append(1, q[2], {dims.g, dims.r});
  append(2, q[1], dims.s);
  rule.operand(index, dims.t);
}

ShardingRule AttentionOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  AttentionFactors dims = attentionFactors(rule, getQuery(), getKey(), getValue(), getCausal());
  Append operand = &OpRule::operandCompound, result = &OpRule::resultCompound;
  queryKeyValue(rule, operand, dims);
  if (getBias())
    biasOperand(rule, 3, getBias(), getQuery(), dims);
  queryLike(rule, result, 0, dims, dims.f);
  rowLike(rule, result, 1, dims);
  return rule.build();
}

/// Split queries leave the gradients of key and value partial.
template <typename GradOp>
static OpRule attentionGradRule(GradOp op, UnitFactors units, Value bias) {
  OpRule rule(op, units);
  AttentionFactors dims =
      attentionFactors(rule, op.getQuery(), op.getKey(), op.getValue(), op.getCausal());
  Append operand = &OpRule::operandCompound, result = &OpRule::resultCompound;
  queryKeyValue(rule, operand, dims);
  queryLike(rule, operand, 3, dims, dims.f);
  rowLike(rule, operand, 4, dims);
  queryLike(rule, operand, 5, dims, dims.f);
  if (bias)
    biasOperand(rule, 6, bias, op.getQuery(), dims);
  queryKeyValue(rule, result, dims);
  rule.linear({5});
  return rule;
}

ShardingRule AttentionGradOp::buildShardingRule(UnitFactors units) {
  return attentionGradRule(*this, units, getBias()).build();
}
ShardingRule AttentionPartGradOp::buildShardingRule(UnitFactors units) {
  return attentionGradRule(*this, units, Value()).build();
}

/// Products of all queries with all keys, a column of each at a time.
static double pairFlops(Value query, Value key, double columns) {
  ArrayRef<int64_t> q = shapeOf(query);
  return 2.0 * q[0] * q[1] * q[2] * shapeOf(key)[1] * columns;
}

/// Bytes of the scores, which are f32.
static double scoreBytes(Value query, Value key) {
  ArrayRef<int64_t> q = shapeOf(query);
  return double(q[0]) * q[1] * q[2] * shapeOf(key)[1] * 4;
}

/// Makes probabilities beside its scores. The scores are computed once for both passes. So are the
/// largest of each row and the sum of its exponentials, of which the result has only one.
OpCost AttentionOp::getCost() {
  double scores = scoreBytes(getQuery(), getKey());
  return {.kind = OpKind::Attention,
          .flops = pairFlops(getQuery(), getKey(), shapeOf(getQuery())[3] + shapeOf(getValue())[3]),
          .scratch = scores,
          .saved = scores + scores / double(shapeOf(getKey())[1]),
          .causal = getCausal(),
          .window = static_cast<int64_t>(getWindow().value_or(0))};
}

/// Scores again, and the gradients of query and key over e; the gradients of probabilities and
/// value over f. Makes another tensor of the scores' size.
template <typename GradOp> static OpCost attentionGradCost(GradOp op) {
  double columns = 3.0 * shapeOf(op.getQuery())[3] + 2.0 * shapeOf(op.getValue())[3];
  return {.kind = OpKind::Attention,
          .flops = pairFlops(op.getQuery(), op.getKey(), columns),
          .scratch = scoreBytes(op.getQuery(), op.getKey()),
          .causal = op.getCausal(),
          .window = static_cast<int64_t>(op.getWindow().value_or(0))};
}

OpCost AttentionGradOp::getCost() { return attentionGradCost(*this); }
OpCost AttentionPartGradOp::getCost() { return attentionGradCost(*this); }

bool AttentionOp::isStatistic(unsigned result) { return result > 0; }
/// Rounding a mask's -3.4e38 to bf16 would give -inf.
bool AttentionOp::mayStayWide(unsigned operand) { return getBias() && operand == 3; }
Widening AttentionOp::getWidening() { return Widening::None; }

//===-- cross entropy -----------------------------------------------------===//

ShardingRule CrossEntropyOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<FactorId> rows = rule.factors(shapeOf(getTarget()));
  FactorId classes = rule.factor(shapeOf(getLogits()).back(), FactorKind::Rounds);
  return rule.operand(0, rows).operand(0, classes).operand(1, rows).result(0, rows)
      .result(1, rows).build();
}

ShardingRule CrossEntropyGradOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<FactorId> rows = rule.factors(shapeOf(getTarget()));
  FactorId classes = rule.factor(shapeOf(getLogits()).back());
  for (unsigned i = 0; i < getNumOperands(); ++i)
    rule.operand(i, rows);
  return rule.operand(0, classes).result(0, rows).result(0, classes).linear({3}).build();
}

OpCost CrossEntropyOp::getCost() { return {OpKind::Loss}; }
OpCost CrossEntropyGradOp::getCost() { return {OpKind::Loss}; }
bool CrossEntropyOp::isStatistic(unsigned) { return true; }

/// A target shifted into the shard may be any number, `ignoreIndex` too: the
/// least integer stands for ignored rows instead.
FailureOr<SmallVector<Value>> CrossEntropyGradOp::buildLocal(OpBuilder &builder,
                                                             ValueRange operands,
                                                             TypeRange resultTypes,
                                                             const LocalContext &context) {
  int64_t last = shapeOf(getLogits()).size() - 1;
  Value offset = shardOffset(builder, context, context.rule.operands[0], last);
  if (!offset)
    return cloneLocal(*this, builder, operands, resultTypes);
  auto type = cast<RankedTensorType>(operands[1].getType());
  unsigned width = type.getElementTypeBitWidth();
  auto constant = [&](const APInt &value) -> Value {
    return arith::ConstantOp::create(builder, getLoc(), DenseElementsAttr::get(type, value));
  };
  APInt least = APInt::getSignedMinValue(width);
  APInt ignore(width, getIgnoreIndex(), /*isSigned=*/true, /*implicitTrunc=*/true);
  Value ignored = arith::CmpIOp::create(builder, getLoc(), arith::CmpIPredicate::eq, operands[1],
                                        constant(ignore));
  Value shifted = shiftIndices(builder, getLoc(), operands[1], offset);
  SmallVector<Value> local(operands);
  local[1] = arith::SelectOp::create(builder, getLoc(), ignored, constant(least), shifted);
  SmallVector<Value> results = cloneLocal(*this, builder, local, resultTypes);
  results[0].getDefiningOp<CrossEntropyGradOp>().setIgnoreIndex(least.getSExtValue());
  return results;
}
