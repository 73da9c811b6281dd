// Convolution and pooling.
#include "HostElementwise.h"
#include "Movement.h"

#include "dtc-io/CheckedSize.h"

using namespace mlir;

namespace dtc::import {

namespace {
/// Attributes that convolutions and pools share.
struct Window {
  Shape kernel, strides, dilations, low, high;
};
} // namespace

/// Reads the window for `spatial` dimensions of sizes `sizes`.
static FailureOr<Window> readWindow(NodeConverter &node, const Shape &kernel,
                                    ArrayRef<int64_t> sizes) {
  const size_t n = sizes.size();
  Window window;
  window.kernel = kernel;
  window.strides = node.attrInts("strides").value_or(Shape(n, 1));
  window.dilations = node.attrInts("dilations").value_or(Shape(n, 1));
  Shape pads = node.attrInts("pads").value_or(Shape(2 * n, 0));
  if (kernel.size() != n || window.strides.size() != n || window.dilations.size() != n ||
      pads.size() != 2 * n)
    return LogicalResult(node.error() << "has attributes for another number of dimensions");
  // Products of two of them, and sums with a tensor's size, don't overflow.
  constexpr int64_t kMost = INT32_MAX;
  auto positive = [](int64_t size) { return size > 0 && size <= kMost; };
  if (!llvm::all_of(kernel, positive) || !llvm::all_of(window.strides, positive) ||
      !llvm::all_of(window.dilations, positive) ||
      llvm::any_of(pads, [](int64_t size) { return size < 0 || size > kMost; }))
    return LogicalResult(node.error() << "has a window of bad sizes");
  const std::string automatic = node.attrString("auto_pad", "NOTSET");
  if (automatic == "VALID")
    pads.assign(2 * n, 0);
  for (size_t i = 0; i < n; ++i) {
    const int64_t extent = (kernel[i] - 1) * window.dilations[i] + 1;
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const int64_t out = (sizes[i] + window.strides[i] - 1) / window.strides[i];
      const int64_t total =
          std::max<int64_t>((out - 1) * window.strides[i] + extent - sizes[i], 0);
      pads[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      pads[i + n] = total - pads[i];
    }
    window.low.push_back(pads[i]);
    window.high.push_back(pads[i + n]);
    if (sizes[i] + pads[i] + pads[i + n] < extent)
      return LogicalResult(node.error() << "has a window larger than its input: " << extent);
  }
  return window;
}

static Shape outputSizes(const Window &window, ArrayRef<int64_t> sizes) {
  Shape result;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t extent = (window.kernel[i] - 1) * window.dilations[i] + 1;
    result.push_back((sizes[i] + window.low[i] + window.high[i] - extent) / window.strides[i] +
                     1);
  }
  return result;
}

/// ceil_mode: as many windows as start inside the input or its left padding.
/// What the last ones read beyond is padding that is appended here.
static void roundUp(Window &window, ArrayRef<int64_t> sizes) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t extent = (window.kernel[i] - 1) * window.dilations[i] + 1;
    const int64_t padded = sizes[i] + window.low[i] + window.high[i], step = window.strides[i];
    int64_t out = (padded - extent + step - 1) / step + 1;
    if ((out - 1) * step >= sizes[i] + window.low[i])
      --out;
    window.high[i] += std::max<int64_t>((out - 1) * step + extent - padded, 0);
  }
}

static LogicalResult convertConv(NodeConverter &node) {
  const Shape input = node.input(0).shape(), weight = node.input(1).shape();
  const int64_t groups = node.attrInt("group", 1);
  if (input.size() < 3 || weight.size() != input.size() || groups < 1 || input[1] % groups != 0 ||
      weight[1] != input[1] / groups || weight[0] % groups != 0)
    return node.error() << "operands of shapes that do not fit: "
                        << listed(input) << " and "
                        << listed(weight);
  const auto sizes = ArrayRef(input).drop_front(2);
  auto window = readWindow(node, Shape(ArrayRef(weight).drop_front(2)), sizes);
  if (failed(window))
    return failure();
  Emitter &emit = node.emit;
  Shape shape = {input[0], weight[0]};
  shape.append(outputSizes(*window, sizes));
  Value x = node.value(0);
  Value result = graph::ConvOp::create(emit, tensorType(x).clone(shape), x, node.value(1), groups,
                                       window->strides, window->low, window->high,
                                       window->dilations);
  Host bias = node.host(2);
  if (node.has(2) && !(bias && bias->isSplat() && bias->number(0) == 0)) {
    if (node.input(2).shape() != Shape{weight[0]})
      return node.error() << "needs one bias per output channel";
    result = arith::AddFOp::create(emit, result,
                                   broadcastAlong(emit, node.value(2), shape, {1}));
  }
  return node.define(result);
}

static FailureOr<Window> readPool(NodeConverter &node) {
  const Shape input = node.input(0).shape();
  auto kernel = node.attrInts("kernel_shape");
  if (input.size() < 3 || !kernel)
    return LogicalResult(node.error() << "needs kernel_shape and spatial dimensions");
  const auto sizes = ArrayRef(input).drop_front(2);
  auto window = readWindow(node, *kernel, sizes);
  if (succeeded(window) && node.attrInt("ceil_mode", 0))
    roundUp(*window, sizes);
  return window;
}

static LogicalResult convertMaxPool(NodeConverter &node) {
  if (node.hasOutput(1) || !isa<FloatType>(node.input(0).element()))
    return node.error() << "is supported on floats and without indices only";
  auto window = readPool(node);
  if (failed(window))
    return failure();
  const Shape input = node.input(0).shape();
  Shape shape(ArrayRef(input).take_front(2));
  shape.append(outputSizes(*window, ArrayRef(input).drop_front(2)));
  Value x = node.value(0);
  return node.define(graph::MaxPoolOp::create(node.emit, tensorType(x).clone(shape), x,
                                              window->kernel, window->strides, window->low,
                                              window->high, window->dilations)
                         .getResult());
}

/// How many elements along one dimension each window of an average counts.
static Host windowCounts(NodeConverter &node, const Window &window, ArrayRef<int64_t> sizes,
                         size_t dim, bool includePad) {
  const size_t n = sizes.size();
  const Shape pads = node.attrInts("pads").value_or(Shape(2 * n, 0));
  // Padding that only ceil_mode appended is never counted.
  const int64_t low = includePad ? 0 : window.low[dim];
  const int64_t high = window.low[dim] + sizes[dim] + (includePad ? pads[dim + n] : 0);
  // The k with low <= from + k * dilation < high, k < kernel.
  auto before = [&](int64_t limit, int64_t from) {
    const int64_t step = window.dilations[dim];
    const int64_t count = limit <= from ? 0 : (limit - from + step - 1) / step;
    return std::min(count, window.kernel[dim]);
  };
  Shape shape(n, 1);
  shape[dim] = outputSizes(window, sizes)[dim];
  auto counts = std::make_shared<HostTensor>(node.input(0).element(), shape, shape);
  for (int64_t at = 0; at < shape[dim]; ++at) {
    const int64_t from = at * window.strides[dim];
    counts->floats[at] = before(high, from) - before(low, from);
  }
  counts->compress();
  return counts;
}

/// The sum divided by what each window counts, dimension by dimension where the product of all is
/// too large.
static FailureOr<Value> divideByCounts(NodeConverter &node, Value sum, const Window &window,
                                       ArrayRef<int64_t> sizes) {
  const Type element = node.input(0).element();
  const Shape outs = outputSizes(window, sizes);
  SmallVector<Host> divisors = {HostTensor::splat(element, {}, 1)};
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (!fitsConstant(element, {outs[dim]}))
      return LogicalResult(node.error() << "averages too many windows: " << outs[dim]);
    Host counts = windowCounts(node, window, sizes, dim, node.attrInt("count_include_pad", 0));
    if (Host both = evaluateBinary("Mul", divisors.back(), counts))
      divisors.back() = both;
    else
      divisors.push_back(counts);
  }
  for (const Host &divisor : divisors)
    sum = arith::DivFOp::create(node.emit, sum,
                                node.valueAs(Tensor(divisor), tensorType(sum).getShape()));
  return sum;
}

/// The sum of one strided slice per position in the window, over the counts.
static LogicalResult convertAveragePool(NodeConverter &node) {
  auto window = readPool(node);
  if (failed(window))
    return failure();
  Emitter &emit = node.emit;
  const Shape input = node.input(0).shape();
  const auto sizes = ArrayRef(input).drop_front(2);
  const Shape outs = outputSizes(*window, sizes);
  const io::CheckedSize positions = io::CheckedSize::product(window->kernel);
  if (failed(node.chargeNodes(positions ? *positions : INT64_MAX)))
    return failure();
  Shape low = {0, 0}, high = {0, 0};
  low.append(window->low);
  high.append(window->high);
  Value x = pad(emit, node.value(0), low, high, 0);
  Value sum;
  forEachIndex(window->kernel, [&](ArrayRef<int64_t> k) {
    Value part = x;
    for (size_t i = 0; i < k.size(); ++i)
      part = sliceDim(emit, part, i + 2, k[i] * window->dilations[i], outs[i],
                      window->strides[i]);
    sum = sum ? arith::AddFOp::create(emit, sum, part).getResult() : part;
  });
  auto average = divideByCounts(node, sum, *window, sizes);
  return failed(average) ? failure() : node.define(*average);
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
  if (node.op() == "GlobalMaxPool")
    return node.define(
        reshape(emit, reduce(emit, graph::ReduceKind::Max, node.value(0), axes), kept));
  Value sum = reduce(emit, graph::ReduceKind::Sum, node.value(0), axes);
  return node.define(reshape(emit, divideByCount(emit, sum, count), kept));
}

void addVisionConverters(ConverterTable &table) {
  table["Conv"] = convertConv;
  table["MaxPool"] = convertMaxPool;
  table["AveragePool"] = convertAveragePool;
  table["GlobalAveragePool"] = convertGlobalPool;
  table["GlobalMaxPool"] = convertGlobalPool;
}

} // namespace dtc::import
