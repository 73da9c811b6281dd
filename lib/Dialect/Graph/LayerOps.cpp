// Verifiers of the layer ops.
#include "Verify.h"

#include "dtc/Dialect/Graph/AttentionPartOps.h"

using namespace mlir;
using namespace dtc::graph;

//===-- softmax -----------------------------------------------------------===//

LogicalResult SoftmaxOp::verify() {
  if (failed(verifyFloat(*this, getInput(), "input")))
    return failure();
  return verifyDim(*this, getDim(), shapeOf(getInput()).size(), "dimension");
}

LogicalResult SoftmaxGradOp::verify() {
  if (failed(verifyFloat(*this, getOutput(), "output")))
    return failure();
  return verifyDim(*this, getDim(), shapeOf(getOutput()).size(), "dimension");
}

LogicalResult ActivationOp::verify() { return verifyFloat(*this, getInput(), "input"); }
LogicalResult ActivationGradOp::verify() { return verifyFloat(*this, getInput(), "input"); }

//===-- normalizations ----------------------------------------------------===//

static LogicalResult verifyNormInput(Operation *op, Value input) {
  if (failed(verifyFloat(op, input, "input")))
    return failure();
  if (shapeOf(input).empty())
    return op->emitOpError() << "input must have a dimension to normalize: rank 0";
  return success();
}

/// Scale, bias and their gradients: floats, one for each column.
static LogicalResult verifyColumn(Operation *op, Value value, Value input, StringRef what) {
  if (!value)
    return success();
  if (failed(verifyFloat(op, value, what)))
    return failure();
  return verifyShape(op, value, shapeOf(input).take_back(), what);
}

static LogicalResult verifyEps(Operation *op, const APFloat &eps) {
  if (!eps.isNegative() && eps.isFinite())
    return success();
  return op->emitOpError() << "eps must be finite and not negative: " << eps.convertToDouble();
}

LogicalResult LayerNormOp::verify() {
  if (failed(verifyNormInput(*this, getInput())))
    return failure();
  ArrayRef<int64_t> rows = shapeOf(getInput()).drop_back();
  if (failed(verifyColumn(*this, getScale(), getInput(), "scale")) ||
      failed(verifyColumn(*this, getBias(), getInput(), "bias")) ||
      failed(verifyLike(*this, getResult(), getInput(), "result")) ||
      failed(verifyStatistic(*this, getMean(), getInput(), rows, "mean")) ||
      failed(verifyStatistic(*this, getRstd(), getInput(), rows, "rstd")))
    return failure();
  return verifyEps(*this, getEps());
}

LogicalResult LayerNormGradOp::verify() {
  if (failed(verifyNormInput(*this, getInput())))
    return failure();
  ArrayRef<int64_t> rows = shapeOf(getInput()).drop_back();
  if (failed(verifyStatistic(*this, getMean(), getInput(), rows, "mean")) ||
      failed(verifyStatistic(*this, getRstd(), getInput(), rows, "rstd")) ||
      failed(verifyLike(*this, getGrad(), getInput(), "gradient")) ||
      failed(verifyColumn(*this, getScale(), getInput(), "scale")) ||
      failed(verifyLike(*this, getInputGrad(), getInput(), "input gradient")) ||
      failed(verifyColumn(*this, getScaleGrad(), getInput(), "scale gradient")))
    return failure();
  return verifyColumn(*this, getBiasGrad(), getInput(), "bias gradient");
}

LogicalResult RmsNormOp::verify() {
  if (failed(verifyNormInput(*this, getInput())))
    return failure();
  ArrayRef<int64_t> rows = shapeOf(getInput()).drop_back();
  if (failed(verifyColumn(*this, getScale(), getInput(), "scale")) ||
      failed(verifyLike(*this, getResult(), getInput(), "result")) ||
      failed(verifyStatistic(*this, getRstd(), getInput(), rows, "rstd")))
    return failure();
  return verifyEps(*this, getEps());
}

LogicalResult RmsNormGradOp::verify() {
  if (failed(verifyNormInput(*this, getInput())))
    return failure();
  ArrayRef<int64_t> rows = shapeOf(getInput()).drop_back();
  if (failed(verifyStatistic(*this, getRstd(), getInput(), rows, "rstd")) ||
      failed(verifyLike(*this, getGrad(), getInput(), "gradient")) ||
      failed(verifyColumn(*this, getScale(), getInput(), "scale")) ||
      failed(verifyLike(*this, getInputGrad(), getInput(), "input gradient")))
    return failure();
  return verifyColumn(*this, getScaleGrad(), getInput(), "scale gradient");
}

//===-- attention ---------------------------------------------------------===//

/// q[b,s,(g r),e], k[b,t,g,e], v[b,t,g,f] and the optional bias[b,(g r),s,t].
static LogicalResult verifyAttentionInputs(Operation *op, Value query, Value key, Value value,
                                           Value bias) {
  if (failed(verifyFloat(op, query, "query")) || failed(verifyRank(op, query, 4, "query")) ||
      failed(verifyRank(op, key, 4, "key")) || failed(verifyRank(op, value, 4, "value")) ||
      failed(verifySameElementType(op, key, query, "key")) ||
      failed(verifySameElementType(op, value, query, "value")))
    return failure();
  ArrayRef<int64_t> q = shapeOf(query), k = shapeOf(key), v = shapeOf(value);
  if (failed(verifyShape(op, key, {q[0], k[1], k[2], q[3]}, "key")) ||
      failed(verifyShape(op, value, {q[0], k[1], k[2], v[3]}, "value")))
    return failure();
  if (k[2] == 0 || q[2] % k[2] != 0)
    return op->emitOpError() << "query heads must be a multiple of the " << k[2]
                             << " key-value heads: " << q[2];
  if (!bias)
    return success();
  if (failed(verifyFloat(op, bias, "bias")) || failed(verifyRank(op, bias, 4, "bias")))
    return failure();
  SmallVector<int64_t> scores{q[0], q[2], q[1], k[1]};
  for (int64_t dim = 0; dim < 3; ++dim)
    if (shapeOf(bias)[dim] == 1)
      scores[dim] = 1; // the same for all
  return verifyShape(op, bias, scores, "bias");
}

template <typename Op> static LogicalResult verifyWindow(Op op) {
  IntegerAttr window = op.getWindowAttr();
  if (window && !op.getCausal())
    return op.emitOpError() << "has a window, so it must be causal";
  if (window && window.getInt() < 1)
    return op.emitOpError() << "window must have a key or more: " << window.getInt();
  return success();
}

static LogicalResult verifyLse(Operation *op, Value lse, Value query) {
  ArrayRef<int64_t> q = shapeOf(query);
  return verifyStatistic(op, lse, query, {q[0], q[2], q[1]}, "lse");
}

static LogicalResult verifyOutput(Operation *op, Value output, Value query, Value value,
                                  StringRef what) {
  ArrayRef<int64_t> q = shapeOf(query);
  if (failed(verifySameElementType(op, output, query, what)))
    return failure();
  return verifyShape(op, output, {q[0], q[1], q[2], shapeOf(value)[3]}, what);
}

LogicalResult AttentionOp::verify() {
  if (failed(verifyAttentionInputs(*this, getQuery(), getKey(), getValue(), getBias())) ||
      failed(verifyWindow(*this)) ||
      failed(verifyOutput(*this, getResult(), getQuery(), getValue(), "result")))
    return failure();
  return verifyLse(*this, getLse(), getQuery());
}

template <typename GradOp> static LogicalResult verifyAttentionGrad(GradOp op, Value bias) {
  Value query = op.getQuery(), key = op.getKey(), value = op.getValue();
  if (failed(verifyAttentionInputs(op, query, key, value, bias)) || failed(verifyWindow(op)) ||
      failed(verifyOutput(op, op.getOutput(), query, value, "output")) ||
      failed(verifyOutput(op, op.getGrad(), query, value, "gradient")) ||
      failed(verifyLse(op, op.getLse(), query)) ||
      failed(verifyLike(op, op.getQueryGrad(), query, "query gradient")) ||
      failed(verifyLike(op, op.getKeyGrad(), key, "key gradient")))
    return failure();
  return verifyLike(op, op.getValueGrad(), value, "value gradient");
}

LogicalResult AttentionGradOp::verify() { return verifyAttentionGrad(*this, getBias()); }

LogicalResult AttentionPartGradOp::verify() {
  if (failed(verifyAttentionGrad(*this, Value())))
    return failure();
  int64_t queries = shapeOf(getQuery())[1], keys = shapeOf(getKey())[1];
  if (getCausal() && queries != keys)
    return emitOpError() << "a part that is causal must have as many keys as there are queries, "
                         << queries << ", got: " << keys;
  return success();
}

//===-- cross entropy -----------------------------------------------------===//

static LogicalResult verifyLogits(Operation *op, Value logits, Value target) {
  if (failed(verifyFloat(op, logits, "logits")) || failed(verifyIndices(op, target, "target")))
    return failure();
  if (shapeOf(logits).empty())
    return op->emitOpError() << "logits must have a dimension of classes: rank 0";
  return verifyShape(op, target, shapeOf(logits).drop_back(), "target");
}

LogicalResult CrossEntropyOp::verify() {
  if (failed(verifyLogits(*this, getLogits(), getTarget())))
    return failure();
  ArrayRef<int64_t> rows = shapeOf(getTarget());
  if (failed(verifyStatistic(*this, getLoss(), getLogits(), rows, "loss")))
    return failure();
  return verifyStatistic(*this, getLse(), getLogits(), rows, "lse");
}

LogicalResult CrossEntropyGradOp::verify() {
  if (failed(verifyLogits(*this, getLogits(), getTarget())))
    return failure();
  ArrayRef<int64_t> rows = shapeOf(getTarget());
  if (failed(verifyStatistic(*this, getLse(), getLogits(), rows, "lse")) ||
      failed(verifyStatistic(*this, getGrad(), getLogits(), rows, "gradient")))
    return failure();
  return verifyLike(*this, getResult(), getLogits(), "result");
}
