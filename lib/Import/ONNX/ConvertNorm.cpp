// Normalizations.
#include "GraphBuilder.h"
#include "TrainedNorms.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/Norms.h"
#include "dtc/Import/Unsupported.h"

using namespace mlir;

namespace dtc::import {

/// Layer and RMS normalization over the dimensions from `axis` on.
static LogicalResult convertTrailingNorm(NodeConverter &node) {
  auto axis = node.axis(node.attrInt("axis", -1), node.input(0).rank());
  if (failed(axis))
    return failure();
  const Tensor *scale = node.has(1) ? &node.input(1) : nullptr;
  const Tensor *bias = node.has(2) ? &node.input(2) : nullptr;
  const double epsilon = node.attrFloat("epsilon", 1e-5f);
  if (node.op() == "RMSNormalization")
    return node.define(rmsNorm(node, node.input(0), *axis, scale, epsilon));
  auto norm = layerNorm(node, node.input(0), *axis, scale, bias, epsilon);
  if (failed(norm) || failed(node.define(1, norm->mean)) || failed(node.define(2, norm->rstd)))
    return failure();
  return node.define(norm->result);
}

static LogicalResult convertGroupNorm(NodeConverter &node) {
  const Shape shape = node.input(0).shape();
  const bool each = node.op() == "InstanceNormalization" && shape.size() > 1;
  const int64_t groups = each ? shape[1] : node.attrInt("num_groups", 1);
  Tensor affine[2] = {node.input(1), node.input(2)};
  // Before opset 21 group norm has a scale and a bias for each group.
  if (!each && node.opset < 21 && shape.size() > 1 && groups > 0 && shape[1] % groups == 0)
    for (Tensor &tensor : affine)
      if (tensor.shape() == Shape{groups}) {
        tensor = expandTensor(node, reshapeTensor(node, tensor, {groups, 1}),
                              {groups, shape[1] / groups});
        tensor = reshapeTensor(node, tensor, {shape[1]});
      }
  return node.define(groupNorm(node, node.input(0), groups, &affine[0], &affine[1],
                               node.attrFloat("epsilon", 1e-5f)));
}

/// x / (bias + alpha / size * sum of squares of the channels around)^beta.
static LogicalResult convertLocalResponse(NodeConverter &node) {
  const Shape shape = node.input(0).shape();
  const int64_t size = node.attrInt("size", 0);
  if (shape.size() < 2 || size < 1 || size > INT32_MAX || !isa<FloatType>(node.input(0).element()))
    return node.error() << "needs floats with channels, and a size: " << size;
  if (failed(node.chargeNodes(size)))
    return failure();
  graph::TensorBuilder b(node.emit, node.emit.getLoc());
  Shape low(shape.size(), 0), high = low;
  low[1] = (size - 1) / 2;
  high[1] = size - 1 - low[1];
  Value x = node.value(0), sum;
  Value padded = pad(node.emit, b.square(x), low, high, 0);
  for (int64_t i = 0; i < size; ++i) {
    Value part = sliceDim(node.emit, padded, 1, i, shape[1]);
    sum = sum ? b.add(sum, part) : part;
  }
  Value base = b.offset(b.scale(sum, node.attrFloat("alpha", 1e-4f) / double(size)),
                        node.attrFloat("bias", 1));
  Value power =
      math::PowFOp::create(node.emit, base, b.constantLike(base, -node.attrFloat("beta", 0.75)));
  return node.define(b.mul(x, power));
}

/// The root of a sum of squares. Where it is 0 its gradient would be infinite, times 0.
static Value guardedRoot(graph::TensorBuilder &b, Value squares) {
  Value isZero = b.compare(arith::CmpFPredicate::OEQ, squares, 0.0);
  return b.selectOr(isZero, 0.0, b.unary<math::SqrtOp>(b.selectOr(isZero, 1.0, squares)));
}

/// Rows of norm 0 stay 0.
static LogicalResult convertLpNormalization(NodeConverter &node) {
  const Shape shape = node.input(0).shape();
  auto axis = node.axis(node.attrInt("axis", -1), shape.size());
  const int64_t order = node.attrInt("p", 2);
  if (failed(axis))
    return failure();
  if ((order != 1 && order != 2) || !isa<FloatType>(node.input(0).element()))
    return node.error() << "needs floats, and p of 1 or 2: " << order;
  graph::TensorBuilder b(node.emit, node.emit.getLoc());
  Value x = node.value(0);
  Value norm = b.sum(order == 1 ? b.unary<math::AbsFOp>(x) : b.square(x), {*axis});
  if (order == 2)
    norm = guardedRoot(b, norm);
  norm = b.selectOr(b.compare(arith::CmpFPredicate::OEQ, norm, 0.0), 1.0, norm);
  return node.define(b.div(x, b.spread(norm, shape, {*axis})));
}

static LogicalResult convertMeanVariance(NodeConverter &node) {
  const Shape shape = node.input(0).shape();
  Shape axes;
  for (int64_t given : node.attrInts("axes").value_or(Shape{0, 2, 3})) {
    auto axis = node.axis(given, shape.size());
    if (failed(axis))
      return failure();
    if (llvm::is_contained(axes, *axis))
      return node.error() << "names an axis twice: " << given;
    axes.push_back(*axis);
  }
  if (!isa<FloatType>(node.input(0).element()))
    return unsupported(node.error()) << "is not supported on " << node.input(0).element();
  llvm::sort(axes);
  int64_t count = 1;
  for (int64_t axis : axes)
    count *= shape[axis];
  graph::TensorBuilder b(node.emit, node.emit.getLoc());
  auto mean = [&](Value v) { return divideByCount(node.emit, b.sum(v, axes), count); };
  Value x = node.value(0);
  Value centred = b.sub(x, b.spread(mean(x), shape, axes));
  constexpr double kEpsilon = 1e-9; // as ONNX defines it
  Value deviation = b.offset(guardedRoot(b, mean(b.square(centred))), kEpsilon);
  return node.define(b.div(centred, b.spread(deviation, shape, axes)));
}

/// The new running statistics take the place of the old ones among the values, from where they
/// become the function's results. ONNX has another formula for its further outputs.
static LogicalResult convertTrainedBatchNorm(NodeConverter &node,
                                             const BatchStatistics &statistics) {
  const double momentum = 1 - node.attrFloat("momentum", 0.9f);
  if (momentum == 0 && !isTrainingNorm(node.node))
    return unsupported(node.error()) << kUnknownMomentum;
  auto norm =
      trainBatchNorm(node, node.input(0), &node.input(1), &node.input(2), statistics, momentum);
  if (failed(norm))
    return failure();
  node.values[node.node.input(3)] = Tensor(norm->mean);
  node.values[node.node.input(4)] = Tensor(norm->variance);
  return node.define(norm->result);
}

static LogicalResult convertBatchNorm(NodeConverter &node) {
  BatchStatistics statistics = {&node.input(3), &node.input(4), node.attrFloat("epsilon", 1e-5f)};
  if (node.tensors.model.trainedNorms.contains(&node.node))
    return convertTrainedBatchNorm(node, statistics);
  if (isTrainingNorm(node.node))
    return unsupported(node.error()) << "in training mode is not supported inside of control flow";
  return node.define(batchNorm(node, node.input(0), &node.input(1), &node.input(2), statistics));
}

void addNormConverters(ConverterTable &table) {
  table["LayerNormalization"] = {convertTrailingNorm, 2};
  table["RMSNormalization"] = {convertTrailingNorm, 2};
  table["GroupNormalization"] = {convertGroupNorm, 3};
  table["InstanceNormalization"] = {convertGroupNorm, 3};
  table["BatchNormalization"] = {convertBatchNorm, 5};
  table["LRN"] = convertLocalResponse;
  table["LpNormalization"] = convertLpNormalization;
  table["MeanVarianceNormalization"] = convertMeanVariance;
}

} // namespace dtc::import
