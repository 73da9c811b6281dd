#include "dtc/Import/Build/Norms.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Unsupported.h"

using namespace mlir;

namespace dtc::import {

/// `channels[c]` repeated over every other dimension of `shape`.
static Value alongChannels(Emitter &emit, Value channels, ArrayRef<int64_t> shape) {
  return broadcastAlong(emit, channels, shape, {1});
}

namespace {
/// The op normalizes one dimension: several are merged around it.
struct Rows {
  Shape merged;           ///< the input's leading dimensions and one that is normalized
  Shape normalized;       ///< the dimensions that are normalized, as the input has them
  Shape kept;             ///< shape of statistics, normalized dimensions of size 1
  RankedTensorType stats; ///< type of statistics, without normalized dimensions
};
} // namespace

static Rows rowsOf(Conversion &node, const Tensor &input, int64_t axis) {
  const Shape shape = input.shape();
  Rows rows;
  rows.merged.assign(shape.begin(), shape.begin() + axis);
  rows.normalized.assign(shape.begin() + axis, shape.end());
  rows.kept = rows.merged;
  rows.kept.append(shape.size() - axis, 1);
  Type statistic = input.element().isF64() ? node.emit.getF64Type() : node.emit.getF32Type();
  rows.stats = RankedTensorType::get(rows.merged, statistic);
  rows.merged.push_back(product(rows.normalized));
  return rows;
}

/// A scale or bias of the normalized dimensions as one dimension; null where there is none.
static FailureOr<Value> affine(Conversion &node, const Rows &rows, const Tensor *tensor) {
  if (!tensor)
    return Value();
  auto common = broadcastShapes({rows.normalized, tensor->shape()});
  if (failed(common) || *common != rows.normalized)
    return LogicalResult(node.error() << "scale or bias of a shape that does not fit");
  return reshape(node.emit, node.valueAs(*tensor, rows.normalized), {rows.merged.back()});
}

FailureOr<Normalized> layerNorm(Conversion &node, const Tensor &input, int64_t axis,
                                const Tensor *scale, const Tensor *bias, double epsilon) {
  Emitter &emit = node.emit;
  const Rows rows = rowsOf(node, input, axis);
  auto factor = affine(node, rows, scale), term = affine(node, rows, bias);
  if (failed(factor) || failed(term))
    return failure();
  Value x = reshape(emit, node.value(input), rows.merged);
  auto norm = graph::LayerNormOp::create(emit, x.getType(), rows.stats, rows.stats, x, *factor,
                                         *term, emit.getF64FloatAttr(epsilon));
  return Normalized{reshape(emit, norm.getResult(), input.shape()),
                    reshape(emit, norm.getMean(), rows.kept),
                    reshape(emit, norm.getRstd(), rows.kept)};
}

FailureOr<Tensor> rmsNorm(Conversion &node, const Tensor &input, int64_t axis, const Tensor *scale,
                          double epsilon) {
  Emitter &emit = node.emit;
  const Rows rows = rowsOf(node, input, axis);
  auto factor = affine(node, rows, scale);
  if (failed(factor))
    return failure();
  Value x = reshape(emit, node.value(input), rows.merged);
  auto norm = graph::RmsNormOp::create(emit, x.getType(), rows.stats, x, *factor,
                                       emit.getF64FloatAttr(epsilon));
  return Tensor(reshape(emit, norm.getResult(), input.shape()));
}

/// x * scale + bias, where they are there.
static Value scaleChannels(Conversion &node, Value x, const Tensor *scale, const Tensor *bias) {
  Emitter &emit = node.emit;
  const Shape shape(tensorType(x).getShape());
  if (scale)
    x = arith::MulFOp::create(emit, x, alongChannels(emit, node.value(*scale), shape));
  if (bias)
    x = arith::AddFOp::create(emit, x, alongChannels(emit, node.value(*bias), shape));
  return x;
}

static bool isPerChannel(const Tensor *tensor, const Shape &shape) {
  return !tensor || tensor->shape() == Shape{shape[1]};
}

FailureOr<Tensor> groupNorm(Conversion &node, const Tensor &input, int64_t groups,
                            const Tensor *scale, const Tensor *bias, double epsilon) {
  const Shape shape = input.shape();
  if (shape.size() < 3 || llvm::is_contained(shape, 0) || !isPerChannel(scale, shape) ||
      !isPerChannel(bias, shape))
    return LogicalResult(node.error() << "needs one scale and one bias per channel");
  if (groups < 1 || shape[1] % groups != 0)
    return LogicalResult(node.error()
                         << "cannot divide " << shape[1] << " channels into groups: " << groups);
  Emitter &emit = node.emit;
  Value x =
      reshape(emit, node.value(input), {shape[0], groups, product(shape) / shape[0] / groups});
  auto statsType = RankedTensorType::get(
      {shape[0], groups}, input.element().isF64() ? emit.getF64Type() : emit.getF32Type());
  auto norm = graph::LayerNormOp::create(emit, x.getType(), statsType, statsType, x, Value(),
                                         Value(), emit.getF64FloatAttr(epsilon));
  return Tensor(scaleChannels(node, reshape(emit, norm.getResult(), shape), scale, bias));
}

static LogicalResult checkBatchNorm(Conversion &node, const Shape &shape,
                                    ArrayRef<const Tensor *> perChannel) {
  for (const Tensor *each : perChannel)
    if (shape.size() < 2 || !isPerChannel(each, shape))
      return node.error() << "needs scale, bias, mean and variance per channel";
  return success();
}

FailureOr<Tensor> batchNorm(Conversion &node, const Tensor &input, const Tensor *scale,
                            const Tensor *bias, const BatchStatistics &statistics) {
  const Shape shape = input.shape();
  if (failed(checkBatchNorm(node, shape, {scale, bias, statistics.mean, statistics.variance})))
    return failure();
  Emitter &emit = node.emit;
  Value x = node.value(input), variance = node.value(*statistics.variance);
  Value eps = splatLike(emit, variance, statistics.epsilon);
  Value deviation = math::SqrtOp::create(emit, arith::AddFOp::create(emit, variance, eps));
  Value numerator = scale ? node.value(*scale) : splatLike(emit, deviation, 1);
  Value factor = arith::DivFOp::create(emit, numerator, deviation);
  x = arith::SubFOp::create(emit, x, alongChannels(emit, node.value(*statistics.mean), shape));
  x = arith::MulFOp::create(emit, x, alongChannels(emit, factor, shape));
  return Tensor(scaleChannels(node, x, nullptr, bias));
}

/// Where the running statistic goes from what it was.
static Value moved(graph::TensorBuilder &b, Value running, Value batch, double momentum) {
  batch = b.convert(batch, elementOf(running));
  return b.add(b.scale(running, 1 - momentum), b.scale(batch, momentum));
}

FailureOr<TrainedBatchNorm> trainBatchNorm(Conversion &node, const Tensor &input,
                                           const Tensor *scale, const Tensor *bias,
                                           const BatchStatistics &running, double momentum) {
  const Shape shape = input.shape();
  if (failed(checkBatchNorm(node, shape, {scale, bias, running.mean, running.variance})))
    return failure();
  if (!isa<FloatType>(input.element()))
    return LogicalResult(unsupported(node.error()) << "is not supported on " << input.element());
  if (product(shape) / std::max<int64_t>(shape[1], 1) < 2)
    return LogicalResult(node.error() << "in training mode needs several elements of each channel");
  Emitter &emit = node.emit;
  Value x = node.value(input);
  Value mean = running.mean ? node.value(*running.mean) : Value();
  Value variance = running.variance ? node.value(*running.variance) : Value();
  auto statistic = RankedTensorType::get(shape[1], graph::statisticsType(input.element()));
  auto norm = graph::BatchNormOp::create(
      emit, x.getType(), statistic, statistic, statistic, x, scale ? node.value(*scale) : Value(),
      bias ? node.value(*bias) : Value(), mean && variance ? mean : Value(),
      mean && variance ? variance : Value(), /*evaluation=*/Value(),
      emit.getF64FloatAttr(running.epsilon));
  TrainedBatchNorm result = {norm.getResult(), {}, {}};
  graph::TensorBuilder b(emit, emit.getLoc());
  if (mean)
    result.mean = moved(b, mean, norm.getMean(), momentum);
  if (variance)
    result.variance = moved(b, variance, norm.getVariance(), momentum);
  return result;
}

} // namespace dtc::import
