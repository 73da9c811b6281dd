// Normalizations.
#include "Movement.h"

using namespace mlir;

namespace dtc::import {

/// `channels[c]` repeated over every other dimension of `shape`.
static Value alongChannels(Emitter &emit, Value channels, ArrayRef<int64_t> shape) {
  return broadcastAlong(emit, channels, shape, {1});
}

/// Layer and RMS normalization over the dimensions from `axis` on: the op
/// normalizes one dimension, several are merged around it.
static LogicalResult convertTrailingNorm(NodeConverter &node) {
  const Tensor &input = node.input(0);
  const Shape shape = input.shape();
  auto axis = node.axis(node.attrInt("axis", -1), shape.size());
  if (failed(axis))
    return failure();
  Emitter &emit = node.emit;
  Shape merged(ArrayRef(shape).take_front(*axis)), stats = merged, keptStats = merged;
  merged.push_back(product(ArrayRef(shape).drop_front(*axis)));
  keptStats.append(shape.size() - *axis, 1);
  const Shape normalized(ArrayRef(shape).drop_front(*axis));
  auto affine = [&](int index) -> FailureOr<Value> {
    if (!node.has(index))
      return Value();
    auto common = broadcastShapes({normalized, node.input(index).shape()});
    if (failed(common) || *common != normalized)
      return LogicalResult(node.error() << "scale or bias of a shape that does not fit");
    return reshape(emit, node.valueAs(node.input(index), normalized), {merged.back()});
  };
  auto scale = affine(1), bias = affine(2);
  if (failed(scale) || failed(bias))
    return failure();
  Value x = reshape(emit, node.value(0), merged);
  Type statistic = input.element().isF64() ? emit.getF64Type() : emit.getF32Type();
  auto statsType = RankedTensorType::get(stats, statistic);
  FloatAttr eps = emit.getF64FloatAttr(node.attrFloat("epsilon", 1e-5f));
  if (node.op() == "RMSNormalization") {
    auto norm = graph::RmsNormOp::create(emit, x.getType(), statsType, x, *scale, eps);
    return node.define(reshape(emit, norm.getResult(), shape));
  }
  auto norm =
      graph::LayerNormOp::create(emit, x.getType(), statsType, statsType, x, *scale, *bias, eps);
  if (failed(node.define(1, reshape(emit, norm.getMean(), keptStats))) ||
      failed(node.define(2, reshape(emit, norm.getRstd(), keptStats))))
    return failure();
  return node.define(reshape(emit, norm.getResult(), shape));
}

/// Statistics of groups of channels; scale and bias per channel.
static LogicalResult convertGroupNorm(NodeConverter &node) {
  const Shape shape = node.input(0).shape();
  if (shape.size() < 3 || llvm::is_contained(shape, 0) ||
      node.input(1).shape() != Shape{shape[1]} || node.input(2).shape() != Shape{shape[1]})
    return node.error() << "needs one scale and one bias per channel";
  const int64_t groups =
      node.op() == "InstanceNormalization" ? shape[1] : node.attrInt("num_groups", 1);
  if (groups < 1 || shape[1] % groups != 0)
    return node.error() << "cannot divide " << shape[1] << " channels into groups: " << groups;
  Emitter &emit = node.emit;
  Value x = reshape(emit, node.value(0), {shape[0], groups, product(shape) / shape[0] / groups});
  auto statsType = RankedTensorType::get(
      {shape[0], groups},
      node.input(0).element().isF64() ? emit.getF64Type() : emit.getF32Type());
  auto norm = graph::LayerNormOp::create(emit, x.getType(), statsType, statsType, x, Value(),
                                         Value(),
                                         emit.getF64FloatAttr(node.attrFloat("epsilon", 1e-5f)));
  Value result = reshape(emit, norm.getResult(), shape);
  result = arith::MulFOp::create(emit, result, alongChannels(emit, node.value(1), shape));
  return node.define(
      arith::AddFOp::create(emit, result, alongChannels(emit, node.value(2), shape)).getResult());
}

/// Batch normalization with running statistics:
/// (x - mean) * (scale / sqrt(var + eps)) + bias.
static LogicalResult convertBatchNorm(NodeConverter &node) {
  if (node.attrInt("training_mode", 0) || node.hasOutput(1))
    return node.error() << "in training mode is not supported; export the model in eval mode "
                           "(model.eval()), in which it normalizes by its running statistics; "
                           "training leaves these as they are";
  const Shape shape = node.input(0).shape();
  for (int i = 1; i < 5; ++i)
    if (shape.size() < 2 || !node.has(i) || node.input(i).shape() != Shape{shape[1]})
      return node.error() << "needs scale, bias, mean and variance per channel";
  Emitter &emit = node.emit;
  Value x = node.value(0), variance = node.value(4);
  Value eps = splatLike(emit, variance, node.attrFloat("epsilon", 1e-5f));
  Value deviation = math::SqrtOp::create(emit, arith::AddFOp::create(emit, variance, eps));
  Value factor = arith::DivFOp::create(emit, node.value(1), deviation);
  x = arith::SubFOp::create(emit, x, alongChannels(emit, node.value(3), shape));
  x = arith::MulFOp::create(emit, x, alongChannels(emit, factor, shape));
  return node.define(
      arith::AddFOp::create(emit, x, alongChannels(emit, node.value(2), shape)).getResult());
}

void addNormConverters(ConverterTable &table) {
  table["LayerNormalization"] = convertTrailingNorm;
  table["RMSNormalization"] = convertTrailingNorm;
  table["GroupNormalization"] = convertGroupNorm;
  table["InstanceNormalization"] = convertGroupNorm;
  table["BatchNormalization"] = convertBatchNorm;
}

} // namespace dtc::import
