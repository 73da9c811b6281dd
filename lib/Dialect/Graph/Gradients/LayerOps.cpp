// Gradients of layer ops, mostly single gradient ops.
#include "../Decompositions/Attention.h"

using namespace mlir;

namespace dtc::graph {

/// Row statistics are results for the backward pass' own use.
static LogicalResult refuseStatisticsGrads(Operation *op, ArrayRef<Value> resultGrads) {
  for (Value grad : resultGrads.drop_front())
    if (grad)
      return op->emitOpError("has no gradient through its row statistics");
  return success();
}

LogicalResult ActivationOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                          ArrayRef<bool>, MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = ActivationGradOp::create(builder, getLoc(), getInput().getType(), getKind(),
                                             getInput(), resultGrads[0]);
  return success();
}

LogicalResult SoftmaxOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                       ArrayRef<bool>, MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = SoftmaxGradOp::create(builder, getLoc(), getInput().getType(), getResult(),
                                          resultGrads[0], getDim());
  return success();
}

/// The type of the gradient of `column`, or of the one that is missing.
static Type columnType(Value column, Value input) {
  if (column)
    return column.getType();
  return RankedTensorType::get(shapeOf(input).take_back(), getElementTypeOrSelf(input));
}

/// Assigns the gradients of operands of which some may be absent, in order.
static void assign(ArrayRef<std::pair<Value, Value>> operandsAndGrads, ArrayRef<bool> needed,
                   MutableArrayRef<Value> operandGrads) {
  unsigned i = 0;
  for (auto [operand, grad] : operandsAndGrads) {
    if (!operand)
      continue;
    if (needed[i])
      operandGrads[i] = grad;
    ++i;
  }
}

LogicalResult LayerNormOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                         ArrayRef<bool> needed,
                                         MutableArrayRef<Value> operandGrads) {
  if (failed(refuseStatisticsGrads(*this, resultGrads)))
    return failure();
  auto grad = LayerNormGradOp::create(
      builder, getLoc(), getInput().getType(), columnType(getScale(), getInput()),
      columnType(getBias(), getInput()), getInput(), getMean(), getRstd(), resultGrads[0],
      getScale());
  assign({{getInput(), grad.getInputGrad()},
          {getScale(), grad.getScaleGrad()},
          {getBias(), grad.getBiasGrad()}},
         needed, operandGrads);
  return success();
}

LogicalResult RmsNormOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                       ArrayRef<bool> needed,
                                       MutableArrayRef<Value> operandGrads) {
  if (failed(refuseStatisticsGrads(*this, resultGrads)))
    return failure();
  auto grad = RmsNormGradOp::create(builder, getLoc(), getInput().getType(),
                                    columnType(getScale(), getInput()), getInput(), getRstd(),
                                    resultGrads[0], getScale());
  assign({{getInput(), grad.getInputGrad()}, {getScale(), grad.getScaleGrad()}}, needed,
         operandGrads);
  return success();
}

/// Learned biases (relative positions) are rare: their gradient is computed
/// from the probabilities once more instead of by attention_grad.
static Value attentionBiasGrad(TensorBuilder &b, AttentionOp op, Value grad) {
  AttentionBuilder attention(b, {op.getQuery(), op.getKey(), op.getValue(), op.getBias(),
                                 op.getScale().convertToDouble(), op.getCausal(),
                                 static_cast<int64_t>(op.getWindow().value_or(0))});
  Value p = attention.probabilities(attention.scores(), op.getLse());
  Value biasGrad = attention.mergeHeads(attention.scoresGrad(p, grad));
  return b.convert(biasGrad, getElementTypeOrSelf(op.getBias()));
}

LogicalResult AttentionOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                         ArrayRef<bool> needed,
                                         MutableArrayRef<Value> operandGrads) {
  if (failed(refuseStatisticsGrads(*this, resultGrads)))
    return failure();
  Value grad = resultGrads[0];
  TensorBuilder b(builder, getLoc());
  if (getBias() && needed[3])
    operandGrads[3] = attentionBiasGrad(b, *this, grad);
  if (!needed[0] && !needed[1] && !needed[2])
    return success();
  auto all =
      AttentionGradOp::create(builder, getLoc(), getQuery().getType(), getKey().getType(),
                              getValue().getType(), getQuery(), getKey(), getValue(), getResult(),
                              getLse(), grad, getBias(), getScale(), getCausal(), getWindowAttr());
  for (unsigned i = 0; i < 3; ++i)
    if (needed[i])
      operandGrads[i] = all->getResult(i);
  return success();
}

LogicalResult CrossEntropyOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                            ArrayRef<bool> needed,
                                            MutableArrayRef<Value> operandGrads) {
  if (failed(refuseStatisticsGrads(*this, resultGrads)))
    return failure();
  if (needed[0])
    operandGrads[0] = CrossEntropyGradOp::create(builder, getLoc(), getLogits().getType(),
                                                 getLogits(), getTarget(), getLse(),
                                                 resultGrads[0], getIgnoreIndex());
  return success();
}

} // namespace dtc::graph
