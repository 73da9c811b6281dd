#include "dtc/Import/Build/Windows.h"

#include "dtc-io/CheckedSize.h"
#include "dtc/Import/Build/HostElementwise.h"
#include "dtc/Import/Build/TransposedConvolution.h"

using namespace mlir;

namespace dtc::import {

LogicalResult checkWindow(Conversion &node, const Window &window, ArrayRef<int64_t> sizes,
                          bool fits) {
  const size_t n = sizes.size();
  if (window.kernel.size() != n || window.strides.size() != n || window.dilations.size() != n ||
      window.low.size() != n || window.high.size() != n)
    return node.error() << "has attributes for another number of dimensions";
  // Products of two of them, and sums with a tensor's size, don't overflow.
  constexpr int64_t kMost = INT32_MAX;
  auto positive = [](int64_t size) { return size > 0 && size <= kMost; };
  auto bad = [](int64_t size) { return size < 0 || size > kMost; };
  if (!llvm::all_of(window.kernel, positive) || !llvm::all_of(window.strides, positive) ||
      !llvm::all_of(window.dilations, positive) || llvm::any_of(window.low, bad) ||
      llvm::any_of(window.high, bad))
    return node.error() << "has a window of bad sizes";
  for (size_t i = 0; i < n && fits; ++i) {
    const int64_t extent = (window.kernel[i] - 1) * window.dilations[i] + 1;
    if (sizes[i] + window.low[i] + window.high[i] < extent)
      return node.error() << "has a window larger than its input: " << extent;
  }
  return success();
}

static Shape outputSizes(const Window &window, ArrayRef<int64_t> sizes) {
  Shape result;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t extent = (window.kernel[i] - 1) * window.dilations[i] + 1;
    result.push_back((sizes[i] + window.low[i] + window.high[i] - extent) / window.strides[i] + 1);
  }
  return result;
}

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

Shape countWindows(Window &window, ArrayRef<int64_t> sizes, bool ceilMode) {
  if (ceilMode)
    roundUp(window, sizes);
  return outputSizes(window, sizes);
}

FailureOr<Tensor> convolve(Conversion &node, const Tensor &x, const Tensor &kernel,
                           const Tensor *bias, const Window &window, int64_t groups) {
  const Shape input = x.shape(), weight = kernel.shape();
  if (input.size() < 3 || weight.size() != input.size() || groups < 1 || input[1] % groups != 0 ||
      weight[1] != input[1] / groups || weight[0] % groups != 0)
    return LogicalResult(node.error() << "operands of shapes that do not fit: " << listed(input)
                                      << " and " << listed(weight));
  Emitter &emit = node.emit;
  Shape shape = {input[0], weight[0]};
  shape.append(outputSizes(window, ArrayRef(input).drop_front(2)));
  Value data = node.value(x);
  Value result =
      graph::ConvOp::create(emit, tensorType(data).clone(shape), data, node.value(kernel), groups,
                            window.strides, window.low, window.high, window.dilations);
  const bool zero = bias && bias->host && bias->host->isSplat() && bias->host->number(0) == 0;
  if (bias && !zero) {
    if (bias->shape() != Shape{weight[0]})
      return LogicalResult(node.error() << "needs one bias per output channel");
    result =
        arith::AddFOp::create(emit, result, broadcastAlong(emit, node.value(*bias), shape, {1}));
  }
  return Tensor(result);
}

FailureOr<Tensor> maxPool(Conversion &node, const Tensor &input, Window window, bool ceilMode) {
  if (!isa<FloatType>(input.element()))
    return LogicalResult(node.error() << "is supported on floats only");
  const Shape from = input.shape();
  Shape shape(ArrayRef(from).take_front(2));
  shape.append(countWindows(window, ArrayRef(from).drop_front(2), ceilMode));
  Value x = node.value(input);
  return Tensor(graph::MaxPoolOp::create(node.emit, tensorType(x).clone(shape), x, window.kernel,
                                         window.strides, window.low, window.high, window.dilations)
                    .getResult());
}

/// How many elements along one dimension each window of an average counts.
static Host windowCounts(Type element, const Window &window, ArrayRef<int64_t> high,
                         ArrayRef<int64_t> sizes, size_t dim, bool includePad) {
  const size_t n = sizes.size();
  // Padding that only ceil_mode appended is never counted.
  const int64_t low = includePad ? 0 : window.low[dim];
  const int64_t end = window.low[dim] + sizes[dim] + (includePad ? high[dim] : 0);
  // The k with low <= from + k * dilation < end, k < kernel.
  auto before = [&](int64_t limit, int64_t from) {
    const int64_t step = window.dilations[dim];
    const int64_t count = limit <= from ? 0 : (limit - from + step - 1) / step;
    return std::min(count, window.kernel[dim]);
  };
  Shape shape(n, 1);
  shape[dim] = outputSizes(window, sizes)[dim];
  auto counts = std::make_shared<HostTensor>(element, shape, shape);
  for (int64_t at = 0; at < shape[dim]; ++at) {
    const int64_t from = at * window.strides[dim];
    counts->floats[at] = before(end, from) - before(low, from);
  }
  counts->compress();
  return counts;
}

/// The sum divided by what each window counts, dimension by dimension where the product of all is
/// too large.
static FailureOr<Value> divideByCounts(Conversion &node, Value sum, const Window &window,
                                       ArrayRef<int64_t> high, ArrayRef<int64_t> sizes,
                                       bool includePad) {
  const Type element = elementOf(sum);
  const Shape outs = outputSizes(window, sizes);
  SmallVector<Host> divisors = {HostTensor::splat(element, {}, 1)};
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (!fitsConstant(element, {outs[dim]}))
      return LogicalResult(node.error() << "averages too many windows: " << outs[dim]);
    Host counts = windowCounts(element, window, high, sizes, dim, includePad);
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

// The sum of one strided slice per position in the window.
FailureOr<Tensor> sumPool(Conversion &node, const Tensor &input, Window window, bool ceilMode) {
  Emitter &emit = node.emit;
  const Shape from = input.shape();
  const auto sizes = ArrayRef(from).drop_front(2);
  const Shape outs = countWindows(window, sizes, ceilMode);
  const io::CheckedSize positions = io::CheckedSize::product(window.kernel);
  if (failed(node.chargeNodes(positions ? *positions : INT64_MAX)))
    return failure();
  Shape low = {0, 0}, high = {0, 0};
  low.append(window.low);
  high.append(window.high);
  Value x = pad(emit, node.value(input), low, high, 0);
  Value sum;
  forEachIndex(window.kernel, [&](ArrayRef<int64_t> k) {
    Value part = x;
    for (size_t i = 0; i < k.size(); ++i)
      part = sliceDim(emit, part, i + 2, k[i] * window.dilations[i], outs[i], window.strides[i]);
    sum = sum ? arith::AddFOp::create(emit, sum, part).getResult() : part;
  });
  return Tensor(sum);
}

FailureOr<Tensor> averagePool(Conversion &node, const Tensor &input, Window window, bool ceilMode,
                              bool includePad) {
  const Shape from = input.shape();
  const auto sizes = ArrayRef(from).drop_front(2);
  const Shape padding = window.high;
  auto sum = sumPool(node, input, window, ceilMode);
  if (failed(sum))
    return failure();
  if (ceilMode)
    roundUp(window, sizes);
  auto average = divideByCounts(node, sum->value, window, padding, sizes, includePad);
  if (failed(average))
    return failure();
  return Tensor(*average);
}

FailureOr<Tensor> sumBlocks(Conversion &node, const Tensor &blocks, const Window &window,
                            ArrayRef<int64_t> image) {
  const Shape input = blocks.shape();
  if (input.size() != 3)
    return LogicalResult(node.error() << "has attributes for another number of dimensions");
  if (failed(checkWindow(node, window, image)))
    return failure();
  const io::CheckedSize positions = io::CheckedSize::product(window.kernel);
  if (failed(node.chargeNodes(positions ? *positions : INT64_MAX)))
    return failure();
  if (input[1] % *positions != 0)
    return LogicalResult(node.error() << "operands of shapes that do not fit");
  Shape columns = {input[0], input[1] / *positions}, full = columns, interior(2, 0);
  llvm::append_range(columns, outputSizes(window, image));
  for (size_t i = 0; i < image.size(); ++i) {
    full.push_back(image[i] + window.low[i] + window.high[i]);
    interior.push_back(window.strides[i] - 1);
  }
  if (failed(node.checkShape(full)))
    return failure();
  if (product(ArrayRef(columns).drop_front(2)) != input[2])
    return LogicalResult(node.error() << "operands of shapes that do not fit");
  Emitter &emit = node.emit;
  Value x = reshape(emit, node.value(blocks), {input[0], columns[1], *positions, input[2]}), sum;
  int64_t position = 0;
  forEachIndex(window.kernel, [&](ArrayRef<int64_t> k) {
    Shape low = {0, 0};
    for (size_t i = 0; i < image.size(); ++i)
      low.push_back(k[i] * window.dilations[i]);
    Value part = reshape(emit, sliceDim(emit, x, 2, position++, 1), columns);
    part = spreadOut(emit, part, full, low, interior);
    sum = sum ? arith::AddFOp::create(emit, sum, part).getResult() : part;
  });
  for (size_t i = 0; i < image.size(); ++i)
    sum = sliceDim(emit, sum, i + 2, window.low[i], image[i]);
  return Tensor(sum);
}

} // namespace dtc::import
