// Normalization by the statistics of the batch. Ranks that hold parts of it reduce the sums of the
// decomposition, so that all normalize by the same numbers.
#include "Rules.h"
#include "Verify.h"

#include "dtc/Dialect/Graph/Evaluation.h"

using namespace mlir;

namespace dtc::graph {

static constexpr int64_t kChannels = 1;

//===-- verification ------------------------------------------------------===//

/// One number for each channel, of the type of statistics.
static LogicalResult verifyOfChannels(Operation *op, Value value, Value input, StringRef what) {
  return verifyStatistic(op, value, input, shapeOf(input)[kChannels], what);
}

/// Scale, bias and their gradients.
static LogicalResult verifyChannels(Operation *op, Value value, Value input, StringRef what) {
  if (!value)
    return success();
  if (failed(verifyFloat(op, value, what)))
    return failure();
  return verifyShape(op, value, shapeOf(input)[kChannels], what);
}

static LogicalResult verifyInput(Operation *op, Value input) {
  if (failed(verifyFloat(op, input, "input")))
    return failure();
  if (shapeOf(input).size() < 2)
    return op->emitOpError() << "input must have samples and channels: rank "
                             << shapeOf(input).size();
  return success();
}

static double elementsOfChannel(Value input) {
  double count = 1;
  for (int64_t dim : otherDims(shapeOf(input).size(), kChannels))
    count *= double(shapeOf(input)[dim]);
  return count;
}

/// Both statistics or none, and a number only where there are any.
static LogicalResult verifyEvaluation(BatchNormOp op) {
  Value mean = op.getRunningMean(), variance = op.getRunningVariance(), input = op.getInput();
  if (!mean != !variance)
    return op.emitOpError("needs a running variance beside a running mean, and the reverse");
  if (failed(verifyChannels(op, mean, input, "running mean")) ||
      failed(verifyChannels(op, variance, input, "running variance")))
    return failure();
  if (!op.getEvaluation())
    return success();
  if (!mean)
    return op.emitOpError("can't evaluate without running statistics");
  if (failed(verifyFloat(op, op.getEvaluation(), "evaluation")))
    return failure();
  return verifyShape(op, op.getEvaluation(), {}, "evaluation");
}

LogicalResult BatchNormOp::verify() {
  if (failed(verifyInput(*this, getInput())) || failed(verifyEvaluation(*this)) ||
      failed(verifyChannels(*this, getScale(), getInput(), "scale")) ||
      failed(verifyChannels(*this, getBias(), getInput(), "bias")) ||
      failed(verifyLike(*this, getResult(), getInput(), "result")) ||
      failed(verifyOfChannels(*this, getMean(), getInput(), "mean")) ||
      failed(verifyOfChannels(*this, getRstd(), getInput(), "rstd")) ||
      failed(verifyOfChannels(*this, getVariance(), getInput(), "variance")))
    return failure();
  if (elementsOfChannel(getInput()) < 2)
    return emitOpError() << "needs several elements of each channel in a microbatch: "
                         << getInput().getType();
  const APFloat eps = getEps();
  if (eps.isNegative() || !eps.isFinite())
    return emitOpError() << "eps must be finite and not negative: " << eps.convertToDouble();
  return success();
}

LogicalResult BatchNormGradOp::verify() {
  if (failed(verifyInput(*this, getInput())) ||
      failed(verifyOfChannels(*this, getMean(), getInput(), "mean")) ||
      failed(verifyOfChannels(*this, getRstd(), getInput(), "rstd")) ||
      failed(verifyLike(*this, getGrad(), getInput(), "gradient")) ||
      failed(verifyChannels(*this, getScale(), getInput(), "scale")) ||
      failed(verifyLike(*this, getInputGrad(), getInput(), "input gradient")) ||
      failed(verifyChannels(*this, getScaleGrad(), getInput(), "scale gradient")))
    return failure();
  return verifyChannels(*this, getBiasGrad(), getInput(), "bias gradient");
}

//===-- sharding, cost, precision -----------------------------------------===//

namespace {
/// Channels are parallel, what is averaged over rounds.
struct BatchNormRule {
  BatchNormRule(Operation *op, UnitFactors units, Value input) : rule(op, units) {
    for (auto [dim, size] : llvm::enumerate(shapeOf(input)))
      all.push_back(
          rule.factor(size, int64_t(dim) == kChannels ? FactorKind::Parallel : FactorKind::Rounds));
    channels = all[kChannels];
  }
  OpRule rule;
  SmallVector<FactorId> all;
  FactorId channels;
};
} // namespace

ShardingRule BatchNormOp::buildShardingRule(UnitFactors units) {
  BatchNormRule norm(*this, units, getInput());
  norm.rule.operand(0, norm.all).result(0, norm.all);
  for (unsigned i = 1; i < getNumOperands(); ++i)
    if (getOperand(i) != getEvaluation())
      norm.rule.operand(i, norm.channels);
  for (unsigned i = 1; i < getNumResults(); ++i)
    norm.rule.result(i, norm.channels);
  return norm.rule.build();
}

ShardingRule BatchNormGradOp::buildShardingRule(UnitFactors units) {
  BatchNormRule norm(*this, units, getInput());
  norm.rule.operand(0, norm.all).operand(1, norm.channels).operand(2, norm.channels);
  norm.rule.operand(3, norm.all);
  if (getScale())
    norm.rule.operand(4, norm.channels);
  return norm.rule.result(0, norm.all)
      .result(1, norm.channels)
      .result(2, norm.channels)
      .linear({3})
      .build();
}

OpCost BatchNormOp::getCost() { return {OpKind::Normalization}; }
OpCost BatchNormGradOp::getCost() { return {OpKind::Normalization}; }

bool BatchNormOp::isStatistic(unsigned result) { return result > 0; }
Widening BatchNormOp::getWidening() { return Widening::None; }

/// What an evaluation takes, of which both have as many bits as the file gives them.
bool BatchNormOp::mayStayWide(unsigned operand) {
  return operand >= 1u + (getScale() ? 1 : 0) + (getBias() ? 1 : 0);
}

//===-- decomposition -----------------------------------------------------===//

namespace {
/// What forward and backward share: the elements of each channel.
struct Channels {
  Channels(TensorBuilder &b, Value input)
      : b(b), shape(shapeOf(input)), averaged(otherDims(shape.size(), kChannels)),
        x(b.widen(input)), count(elementsOfChannel(input)) {}

  TensorBuilder &b;
  SmallVector<int64_t> shape, averaged;
  Value x;
  double count; ///< of a channel's elements in the whole batch

  Value sum(Value v) { return b.sum(v, averaged); }
  Value along(Value statistic) { return b.broadcast(b.widen(statistic), kChannels, shape); }
};
} // namespace

static Value rounded(TensorBuilder &b, Value v, Value result) {
  return b.convert(v, getElementTypeOrSelf(result));
}

FailureOr<SmallVector<Value>> BatchNormOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  Channels channels(b, getInput());
  auto orRunning = [&](Value ofBatch, Value running) {
    return canEvaluate()
               ? chooseByEvaluation(b, getEvaluation(), rounded(b, running, ofBatch), ofBatch)
               : ofBatch;
  };
  Value mean = orRunning(b.scale(channels.sum(channels.x), 1.0 / channels.count), getRunningMean());
  Value centred = b.sub(channels.x, channels.along(mean));
  Value squares = channels.sum(b.square(centred));
  Value biased = orRunning(b.scale(squares, 1.0 / channels.count), getRunningVariance());
  Value rstd = b.unary<math::RsqrtOp>(b.offset(biased, getEps().convertToDouble()));
  Value factor = getScale() ? b.mul(rstd, b.widen(getScale())) : rstd;
  Value y = b.mul(centred, channels.along(factor));
  if (getBias())
    y = b.add(y, channels.along(getBias()));
  Value unbiased = orRunning(b.scale(squares, 1.0 / (channels.count - 1)), getRunningVariance());
  return SmallVector<Value>{rounded(b, y, getResult()), mean, rstd, unbiased};
}

FailureOr<SmallVector<Value>> BatchNormGradOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  Channels channels(b, getInput());
  Value grad = b.widen(getGrad());
  Value normal = b.mul(b.sub(channels.x, channels.along(getMean())), channels.along(getRstd()));
  Value biasGrad = channels.sum(grad);
  Value scaleGrad = channels.sum(b.mul(grad, normal));
  Value meanPart = channels.along(b.scale(biasGrad, 1.0 / channels.count));
  Value spreadPart = b.mul(normal, channels.along(b.scale(scaleGrad, 1.0 / channels.count)));
  Value factor = getScale() ? b.mul(getRstd(), b.widen(getScale())) : getRstd();
  Value inputGrad = b.mul(b.sub(b.sub(grad, meanPart), spreadPart), channels.along(factor));
  return SmallVector<Value>{rounded(b, inputGrad, getInputGrad()),
                            rounded(b, scaleGrad, getScaleGrad()),
                            rounded(b, biasGrad, getBiasGrad())};
}

//===-- gradient ----------------------------------------------------------===//

/// The type of the gradient of `channels`, or of the one that is missing.
static Type channelsType(Value channels, Value input) {
  if (channels)
    return channels.getType();
  return RankedTensorType::get(shapeOf(input)[kChannels], getElementTypeOrSelf(input));
}

LogicalResult BatchNormOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                         ArrayRef<bool> needed,
                                         MutableArrayRef<Value> operandGrads) {
  for (Value grad : resultGrads.drop_front())
    if (grad)
      return emitOpError("has no gradient through the statistics that it returns");
  auto grad = BatchNormGradOp::create(builder, getLoc(), getInput().getType(),
                                      channelsType(getScale(), getInput()),
                                      channelsType(getBias(), getInput()), getInput(), getMean(),
                                      getRstd(), resultGrads[0], getScale());
  SmallVector<Value> grads = {grad.getInputGrad()};
  if (getScale())
    grads.push_back(grad.getScaleGrad());
  if (getBias())
    grads.push_back(grad.getBiasGrad());
  for (auto [i, each] : llvm::enumerate(grads))
    if (needed[i])
      operandGrads[i] = each;
  return success();
}

} // namespace dtc::graph
