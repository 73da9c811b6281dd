#include "Attention.h"

#include "dtc/Dialect/Graph/AttentionPartOps.h"

#include <limits>

using namespace mlir;

namespace dtc::graph {

namespace {

/// Index numbers in contractions, of which r comes last as it may be missing.
enum Index : int64_t { B, G, S, T, E, R };

Type elementType(Value v) { return getElementTypeOrSelf(v); }

/// A bias [b,(g r),s,t], of which all but t may be 1, for each score.
Value repeated(TensorBuilder &b, Value bias, const AttentionOperands &operands) {
  ArrayRef<int64_t> query = shapeOf(operands.query), key = shapeOf(operands.key);
  const int64_t scores[] = {query[0], query[2], query[1], key[1]};
  SmallVector<int64_t> kept, own;
  for (int64_t dim = 0; dim < 4; ++dim)
    if (shapeOf(bias)[dim] == scores[dim]) {
      kept.push_back(dim);
      own.push_back(scores[dim]);
    }
  return kept.size() == 4 ? bias : b.broadcast(b.reshape(bias, own), kept, scores);
}

} // namespace

AttentionBuilder::AttentionBuilder(TensorBuilder &b, const AttentionOperands &operands)
    : b(b), operands(operands) {
  ArrayRef<int64_t> query = shapeOf(operands.query), key = shapeOf(operands.key);
  group = query[2] / key[2];
  // e and f are never in one contraction and share a number.
  keyIndices = valueIndices = {B, T, G, E};
  if (group == 1) {
    shapeOfScores = {query[0], key[2], query[1], key[1]};
    queryIndices = resultIndices = {B, S, G, E};
    scoreIndices = {B, G, S, T};
  } else {
    shapeOfScores = {query[0], key[2], group, query[1], key[1]};
    queryIndices = resultIndices = {B, S, G, R, E};
    scoreIndices = {B, G, R, S, T};
  }
}

Value AttentionBuilder::splitQueryHeads(Value v) {
  ArrayRef<int64_t> shape = shapeOf(v);
  if (group == 1)
    return v;
  return b.reshape(v, {shape[0], shape[1], shape[2] / group, group, shape[3]});
}

Value AttentionBuilder::splitHeads(Value v) {
  if (group == 1)
    return v;
  SmallVector<int64_t> shape(shapeOf(v));
  shape[1] /= group;
  shape.insert(shape.begin() + 2, group);
  return b.reshape(v, shape);
}

Value AttentionBuilder::mergeHeads(Value v) {
  if (group == 1)
    return v;
  SmallVector<int64_t> shape(shapeOf(v));
  shape[1] *= group;
  shape.erase(shape.begin() + 2);
  return b.reshape(v, shape);
}

Value AttentionBuilder::maskedCausally(Value scores) {
  int64_t rank = shapeOfScores.size();
  int64_t queries = shapeOfScores[rank - 2], keys = shapeOfScores[rank - 1];
  Type index = b.builder.getI32Type();
  Value query = b.iota(index, shapeOfScores, rank - 2);
  Value key = b.iota(index, shapeOfScores, rank - 1);
  if (keys != queries)
    query = arith::AddIOp::create(b.builder, b.loc, query,
                                  b.integer(query.getType(), keys - queries));
  Value visible = b.compare(arith::CmpIPredicate::sle, key, query);
  if (operands.window > 0 && operands.window < keys) {
    Value before =
        arith::SubIOp::create(b.builder, b.loc, query, b.integer(query.getType(), operands.window));
    visible = arith::AndIOp::create(b.builder, b.loc, visible,
                                    b.compare(arith::CmpIPredicate::sgt, key, before));
  }
  return b.selectOr(visible, scores, -std::numeric_limits<double>::infinity());
}

Value AttentionBuilder::scores() {
  Value query = splitQueryHeads(operands.query);
  Value scores = b.contract(query, queryIndices, operands.key, keyIndices, scoreIndices,
                            statisticsType(elementType(query)));
  scores = b.scale(scores, operands.scale);
  if (operands.bias)
    scores = b.add(scores, splitHeads(repeated(b, b.widen(operands.bias), operands)));
  return operands.causal ? maskedCausally(scores) : scores;
}

Value AttentionBuilder::probabilities(Value scores, Value lse) {
  // Where a bias of -3e38 hides all n keys of a query, its statistic is -3e38, too: log n is lost
  // in rounding. So it isn't used beside a bias.
  if (operands.bias)
    return normalizedRows(b, softmaxRows(b, scores, keyDim()), keyDim());
  double infinity = std::numeric_limits<double>::infinity();
  Value rows = splitHeads(lse);
  Value empty = b.compare(arith::CmpFPredicate::OEQ, rows, -infinity);
  rows = b.selectOr(empty, 0.0, rows);
  return b.unary<math::ExpOp>(b.sub(scores, b.spread(rows, shapeOfScores, {keyDim()})));
}

Value AttentionBuilder::weightedValues(Value p, Value like) {
  Value result = b.contract(b.convert(p, elementType(operands.value)), scoreIndices,
                            operands.value, valueIndices, resultIndices, elementType(like));
  return b.reshape(result, shapeOf(like));
}

Value AttentionBuilder::probabilitiesGrad(Value p, Value grad) {
  return b.contract(splitQueryHeads(grad), resultIndices, operands.value, valueIndices,
                    scoreIndices, elementType(p));
}

Value AttentionBuilder::scoresGrad(Value p, Value grad) {
  return softmaxInputGrad(b, p, probabilitiesGrad(p, grad), keyDim());
}

Value AttentionBuilder::partScoresGrad(Value p, Value output, Value grad) {
  Value sums = b.sum(b.mul(b.widen(output), b.widen(grad)), {3}); // [b,s,(g r)]
  Value rows = splitHeads(b.transpose(sums, {0, 2, 1}));
  return b.mul(p, b.sub(probabilitiesGrad(p, grad), b.spread(rows, shapeOfScores, {keyDim()})));
}

Value AttentionBuilder::queryGrad(Value scoresGrad) {
  Type type = elementType(operands.query);
  Value grad = b.contract(b.convert(b.scale(scoresGrad, operands.scale), type), scoreIndices,
                          operands.key, keyIndices, queryIndices, type);
  return b.reshape(grad, shapeOf(operands.query));
}

Value AttentionBuilder::keyGrad(Value scoresGrad) {
  Type type = elementType(operands.key);
  return b.contract(b.convert(b.scale(scoresGrad, operands.scale), type), scoreIndices,
                    splitQueryHeads(operands.query), queryIndices, keyIndices, type);
}

Value AttentionBuilder::valueGrad(Value p, Value grad) {
  Type type = elementType(operands.value);
  return b.contract(b.convert(p, type), scoreIndices, splitQueryHeads(grad), resultIndices,
                    valueIndices, type);
}

/// `bias`: null where the op has none.
template <typename Op> static AttentionOperands operandsOf(Op op, Value bias) {
  return {op.getQuery(),
          op.getKey(),
          op.getValue(),
          bias,
          op.getScale().convertToDouble(),
          op.getCausal(),
          static_cast<int64_t>(op.getWindow().value_or(0))};
}

FailureOr<SmallVector<Value>> AttentionOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  AttentionBuilder attention(b, operandsOf(*this, getBias()));
  SoftmaxRows rows = softmaxRows(b, attention.scores(), attention.keyDim());
  Value p = normalizedRows(b, rows, attention.keyDim());
  return SmallVector<Value>{attention.weightedValues(p, getResult()),
                            attention.mergeHeads(logTotal(b, rows))};
}

FailureOr<SmallVector<Value>> AttentionPartGradOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  AttentionBuilder attention(b, operandsOf(*this, Value()));
  Value p = attention.probabilities(attention.scores(), getLse());
  Value scoresGrad = attention.partScoresGrad(p, getOutput(), getGrad());
  return SmallVector<Value>{attention.queryGrad(scoresGrad), attention.keyGrad(scoresGrad),
                            attention.valueGrad(p, getGrad())};
}

FailureOr<SmallVector<Value>> AttentionGradOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  AttentionBuilder attention(b, operandsOf(*this, getBias()));
  Value p = attention.probabilities(attention.scores(), getLse());
  Value scoresGrad = attention.scoresGrad(p, getGrad());
  return SmallVector<Value>{attention.queryGrad(scoresGrad), attention.keyGrad(scoresGrad),
                            attention.valueGrad(p, getGrad())};
}

} // namespace dtc::graph
