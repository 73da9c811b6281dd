#include "dtc/Import/Build/TransposedConvolution.h"

#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/Windows.h"

using namespace mlir;

namespace dtc::import {

Value spreadOut(Emitter &emit, Value x, ArrayRef<int64_t> shape, ArrayRef<int64_t> low,
                ArrayRef<int64_t> interior) {
  return graph::PadOp::create(emit, tensorType(x).clone(shape), x, low, interior, APFloat(0.0));
}

LogicalResult checkTransposed(Conversion &node, const TransposedDim &t) {
  for (int64_t size : {t.kernel - 1, t.stride - 1, t.dilation - 1, t.low, t.high, t.extra})
    if (size < 0 || size > INT32_MAX)
      return node.error() << "has a window of bad sizes";
  return success();
}

LogicalResult checkTransposed(Conversion &node, const Tensor &x, const Tensor &weight,
                              int64_t groups) {
  const Shape input = x.shape(), kernel = weight.shape();
  if (input.size() < 3 || kernel.size() != input.size() || groups < 1 || kernel[0] != input[1] ||
      input[1] % groups != 0)
    return node.error() << "operands of shapes that do not fit: " << listed(input) << " and "
                        << listed(kernel);
  return success();
}

/// weight[c, m/groups, kernel] as that of the convolution: [m, c/groups, kernel in reverse].
static FailureOr<Tensor> turned(Conversion &node, Tensor weight, int64_t groups) {
  Shape shape = weight.shape(), split = shape, perm;
  split[0] /= groups;
  split.insert(split.begin(), groups);
  for (size_t i = 0; i < split.size(); ++i)
    perm.push_back(i);
  std::swap(perm[1], perm[2]);
  weight = transposeTensor(node, reshapeTensor(node, weight, split), perm);
  Shape merged = {shape[1] * groups, shape[0] / groups};
  merged.append(shape.begin() + 2, shape.end());
  weight = reshapeTensor(node, weight, merged);
  for (size_t i = 2; i < merged.size(); ++i) {
    if (failed(node.chargeNodes(merged[i])))
      return failure();
    if (merged[i] > 1)
      weight = sliceTensor(node, weight, i, merged[i] - 1, merged[i], -1);
  }
  return weight;
}

FailureOr<Tensor> convolveTransposed(Conversion &node, const Tensor &input, const Tensor &weight,
                                     const Tensor *bias, ArrayRef<TransposedDim> dims,
                                     int64_t groups) {
  auto kernel = turned(node, weight, groups);
  if (failed(kernel))
    return failure();
  Shape spread(ArrayRef(input.shape()).take_front(2)), interior(2, 0);
  for (const TransposedDim &t : dims) {
    spread.push_back((t.size - 1) * t.stride + 1);
    interior.push_back(t.stride - 1);
  }
  if (failed(node.checkShape(spread)))
    return failure();
  Value x = spreadOut(node.emit, node.value(input), spread, Shape(spread.size(), 0), interior);
  Window window;
  for (auto [i, t] : llvm::enumerate(dims)) {
    const int64_t reach = (t.kernel - 1) * t.dilation;
    int64_t low = reach - t.low, high = reach - t.high + t.extra;
    const int64_t size = spread[i + 2] + std::min<int64_t>(low, 0) + std::min<int64_t>(high, 0);
    if (size < 1)
      return LogicalResult(node.error() << "pads away all of dimension " << i + 2);
    x = sliceDim(node.emit, x, i + 2, std::max<int64_t>(-low, 0), size);
    window.low.push_back(std::max<int64_t>(low, 0));
    window.high.push_back(std::max<int64_t>(high, 0));
    window.kernel.push_back(t.kernel);
    window.strides.push_back(1);
    window.dilations.push_back(t.dilation);
  }
  if (failed(checkWindow(node, window, tensorType(x).getShape().drop_front(2))))
    return failure();
  return convolve(node, Tensor(x), *kernel, bias, window, groups);
}

} // namespace dtc::import
