// Convolution and pooling.
#include "GraphBuilder.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Build/Selection.h"
#include "dtc/Import/Build/Windows.h"

using namespace mlir;

namespace dtc::import {

/// Reads the window for `spatial` dimensions of sizes `sizes`.
static FailureOr<Window> readWindow(NodeConverter &node, const Shape &kernel,
                                    ArrayRef<int64_t> sizes) {
  const size_t n = sizes.size();
  Window window;
  window.kernel = kernel;
  window.strides = node.attrInts("strides").value_or(Shape(n, 1));
  window.dilations = node.attrInts("dilations").value_or(Shape(n, 1));
  Shape pads = node.attrInts("pads").value_or(Shape(2 * n, 0));
  if (pads.size() != 2 * n)
    return LogicalResult(node.error() << "has attributes for another number of dimensions");
  window.low.assign(pads.begin(), pads.begin() + n);
  window.high.assign(pads.begin() + n, pads.end());
  const std::string automatic = node.attrString("auto_pad", "NOTSET");
  if (automatic == "VALID")
    window.low = window.high = Shape(n, 0);
  if (failed(checkWindow(node, window, sizes, /*fits=*/false)))
    return failure();
  for (size_t i = 0; i < n && StringRef(automatic).starts_with("SAME"); ++i) {
    const int64_t extent = (kernel[i] - 1) * window.dilations[i] + 1;
    const int64_t out = (sizes[i] + window.strides[i] - 1) / window.strides[i];
    const int64_t total = std::max<int64_t>((out - 1) * window.strides[i] + extent - sizes[i], 0);
    window.low[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    window.high[i] = total - window.low[i];
  }
  if (failed(checkWindow(node, window, sizes)))
    return failure();
  return window;
}

static LogicalResult convertConv(NodeConverter &node) {
  const Shape input = node.input(0).shape(), weight = node.input(1).shape();
  if (input.size() < 3 || weight.size() != input.size())
    return node.error() << "operands of shapes that do not fit: " << listed(input) << " and "
                        << listed(weight);
  auto window =
      readWindow(node, Shape(ArrayRef(weight).drop_front(2)), ArrayRef(input).drop_front(2));
  if (failed(window))
    return failure();
  const Tensor *bias = node.has(2) ? &node.input(2) : nullptr;
  return node.define(
      convolve(node, node.input(0), node.input(1), bias, *window, node.attrInt("group", 1)));
}

static FailureOr<Window> readPool(NodeConverter &node) {
  const Shape input = node.input(0).shape();
  auto kernel = node.attrInts("kernel_shape");
  if (input.size() < 3 || !kernel)
    return LogicalResult(node.error() << "needs kernel_shape and spatial dimensions");
  return readWindow(node, *kernel, ArrayRef(input).drop_front(2));
}

static LogicalResult convertMaxPool(NodeConverter &node) {
  auto window = readPool(node);
  if (failed(window))
    return failure();
  const bool ceilMode = node.attrInt("ceil_mode", 0);
  auto pooled = maxPool(node, node.input(0), *window, ceilMode);
  if (failed(pooled) || !node.hasOutput(1))
    return node.define(pooled);
  auto positions = maxPositions(node, node.input(0), *pooled, *window, ceilMode,
                                node.attrInt("storage_order", 0) != 0);
  if (failed(positions) || failed(node.define(1, *positions)))
    return failure();
  return node.define(pooled);
}

static LogicalResult convertAveragePool(NodeConverter &node) {
  auto window = readPool(node);
  if (failed(window))
    return failure();
  return node.define(averagePool(node, node.input(0), *window, node.attrInt("ceil_mode", 0),
                                 node.attrInt("count_include_pad", 0)));
}

/// The p-th root of what |x|^p sums up to. A sum of 0 has no gradient, instead of an infinite one.
static Value powerMean(NodeConverter &node, int64_t order, Value sum) {
  if (order == 1)
    return sum;
  graph::TensorBuilder b(node.emit, node.emit.getLoc());
  Value isZero = b.compare(arith::CmpFPredicate::OEQ, sum, 0.0);
  Value safe = b.selectOr(isZero, 1.0, sum);
  Value root =
      order == 2
          ? b.unary<math::SqrtOp>(safe)
          : Value(math::PowFOp::create(node.emit, safe, b.constantLike(safe, 1.0 / double(order))));
  return b.selectOr(isZero, 0.0, root);
}

static LogicalResult convertLpPool(NodeConverter &node) {
  const int64_t order = node.attrInt("p", 2);
  const Shape shape = node.input(0).shape();
  if (order < 1 || !isa<FloatType>(node.input(0).element()) || shape.size() < 3)
    return node.error() << "needs floats with spatial dimensions, and a positive p: " << order;
  graph::TensorBuilder b(node.emit, node.emit.getLoc());
  Value x = node.value(0);
  Value powers = order == 2 ? b.square(x) : b.unary<math::AbsFOp>(x);
  if (order > 2)
    powers = math::PowFOp::create(node.emit, powers, b.constantLike(powers, double(order)));
  if (node.op() == "LpPool") {
    auto window = readPool(node);
    auto sum = failed(window)
                   ? FailureOr<Tensor>(failure())
                   : sumPool(node, Tensor(powers), *window, node.attrInt("ceil_mode", 0));
    return failed(sum) ? failure() : node.define(powerMean(node, order, sum->value));
  }
  Shape axes, kept = shape;
  for (size_t i = 2; i < shape.size(); ++i) {
    axes.push_back(i);
    kept[i] = 1;
  }
  return node.define(reshape(node.emit, powerMean(node, order, b.sum(powers, axes)), kept));
}

static LogicalResult convertGlobalPool(NodeConverter &node) {
  const Shape input = node.input(0).shape();
  Shape axes, kept = input;
  int64_t count = 1;
  for (size_t i = 2; i < input.size(); ++i) {
    axes.push_back(i);
    count *= input[i];
    kept[i] = 1;
  }
  Emitter &emit = node.emit;
  if (node.op() == "GlobalMaxPool") {
    Value flat = reshape(emit, node.value(0), {input[0], input[1], count});
    auto top = firstExtreme(node, Tensor(flat), 2, {/*isMax=*/true, /*last=*/false, false});
    return failed(top) ? failure() : node.define(reshape(emit, node.value(*top), kept));
  }
  Value sum = reduce(emit, graph::ReduceKind::Sum, node.value(0), axes);
  return node.define(reshape(emit, divideByCount(emit, sum, count), kept));
}

void addVisionConverters(ConverterTable &table) {
  table["Conv"] = {convertConv, 2};
  table["MaxPool"] = convertMaxPool;
  table["AveragePool"] = convertAveragePool;
  table["LpPool"] = convertLpPool;
  table["GlobalLpPool"] = convertLpPool;
  table["GlobalAveragePool"] = convertGlobalPool;
  table["GlobalMaxPool"] = convertGlobalPool;
}

} // namespace dtc::import
