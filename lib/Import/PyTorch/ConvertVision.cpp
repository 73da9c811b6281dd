// Convolutions and pools.
#include "AtenConverter.h"

#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/TransposedConvolution.h"
#include "dtc/Import/Build/Windows.h"
#include "dtc/Import/Unsupported.h"

using namespace mlir;

namespace dtc::import {

/// A size for each of `n` dimensions; one stands for all, none for `byDefault`.
static FailureOr<Shape> perDim(AtenConverter &node, StringRef name, size_t n, Shape byDefault) {
  auto list = node.integers(name, Shape());
  if (failed(list))
    return failure();
  if (list->empty())
    return byDefault;
  return list->size() == 1 ? Shape(n, list->front()) : *list;
}

/// Of a convolution whose padding is a word: zeros such that the size stays, or none.
static LogicalResult readPadding(AtenConverter &node, ArrayRef<int64_t> sizes, Window &window) {
  const std::string way = *node.text("padding", std::nullopt);
  if (way != "same" && way != "valid")
    return node.error() << "has an unknown padding: " << way;
  for (size_t i = 0; i < sizes.size() && way == "same"; ++i) {
    if (window.strides[i] != 1)
      return node.error() << "pads to the same size with a stride of " << window.strides[i];
    const int64_t total = (window.kernel[i] - 1) * window.dilations[i];
    window.low[i] = total / 2;
    window.high[i] = total - window.low[i];
  }
  return checkWindow(node, window, sizes);
}

static FailureOr<Window> readWindow(AtenConverter &node, const Shape &kernel, StringRef stride,
                                    const Shape &strideByDefault, ArrayRef<int64_t> sizes) {
  const size_t n = sizes.size();
  auto strides = perDim(node, stride, n, strideByDefault);
  const Argument *given = node.argument("padding");
  const bool isWord = given && given->as<std::string>();
  auto padding = isWord ? Shape(n, 0) : perDim(node, "padding", n, Shape(n, 0));
  auto dilations = perDim(node, "dilation", n, Shape(n, 1));
  if (failed(strides) || failed(padding) || failed(dilations))
    return failure();
  Window window = {kernel, *strides, *dilations, *padding, *padding};
  if (isWord)
    return failed(checkWindow(node, window, sizes, /*fits=*/false)) ||
                   failed(readPadding(node, sizes, window))
               ? FailureOr<Window>(failure())
               : window;
  if (failed(checkWindow(node, window, sizes)))
    return failure();
  return window;
}

static LogicalResult convertTransposed(AtenConverter &node, const Tensor &input,
                                       const Tensor &weight, const Tensor *bias, int64_t groups) {
  if (failed(checkTransposed(node, input, weight, groups)))
    return failure();
  const Shape x = input.shape(), w = weight.shape();
  const size_t n = x.size() - 2;
  auto strides = perDim(node, "stride", n, Shape(n, 1)),
       padding = perDim(node, "padding", n, Shape(n, 0)),
       extra = perDim(node, "output_padding", n, Shape(n, 0)),
       dilations = perDim(node, "dilation", n, Shape(n, 1));
  if (failed(strides) || failed(padding) || failed(extra) || failed(dilations))
    return failure();
  if (strides->size() != n || padding->size() != n || extra->size() != n || dilations->size() != n)
    return node.error() << "has arguments for another number of dimensions";
  std::vector<TransposedDim> dims;
  for (size_t i = 0; i < n; ++i) {
    dims.push_back({x[i + 2], w[i + 2], (*strides)[i], (*dilations)[i], (*padding)[i],
                    (*padding)[i], (*extra)[i]});
    if (failed(checkTransposed(node, dims.back())))
      return failure();
  }
  return node.define(convolveTransposed(node, input, weight, bias, dims, groups));
}

static LogicalResult convertConvolution(AtenConverter &node) {
  auto input = node.tensor("input"), weight = node.tensor("weight");
  auto bias = node.optionalTensor("bias");
  auto groups = node.integer("groups", 1);
  auto transposed = node.boolean("transposed", false);
  if (failed(input) || failed(weight) || failed(bias) || failed(groups) || failed(transposed))
    return failure();
  const Tensor *shift = *bias ? &**bias : nullptr;
  if (*transposed || StringRef(node.node.op).contains("conv_transpose"))
    return convertTransposed(node, *input, *weight, shift, *groups);
  const Shape x = input->shape(), w = weight->shape();
  if (x.size() < 3 || w.size() != x.size())
    return node.error() << "operands of shapes that do not fit: " << listed(x) << " and "
                        << listed(w);
  auto window = readWindow(node, Shape(ArrayRef(w).drop_front(2)), "stride", Shape(x.size() - 2, 1),
                           ArrayRef(x).drop_front(2));
  if (failed(window))
    return failure();
  return node.define(convolve(node, *input, *weight, shift, *window, *groups));
}

static LogicalResult convertPool(AtenConverter &node) {
  auto self = node.tensor("self");
  auto ceil = node.boolean("ceil_mode", false);
  auto includePad = node.boolean("count_include_pad", true);
  if (failed(self) || failed(ceil) || failed(includePad))
    return failure();
  const Shape x = self->shape();
  if (x.size() < 3 || node.has("divisor_override"))
    return node.error() << "is supported on batches and without a divisor of its own only";
  auto kernel = perDim(node, "kernel_size", x.size() - 2, {});
  if (failed(kernel))
    return failure();
  auto window = readWindow(node, *kernel, "stride", *kernel, ArrayRef(x).drop_front(2));
  if (failed(window))
    return failure();
  if (StringRef(node.op()).starts_with("aten.max_pool"))
    return node.define(maxPool(node, *self, *window, *ceil));
  return node.define(averagePool(node, *self, *window, *ceil, *includePad));
}

/// The elements under each place of a window, [batch, channel * window, places].
static LogicalResult convertBlocks(AtenConverter &node) {
  auto self = node.tensor("self");
  auto kernel = node.integers("kernel_size");
  if (failed(self) || failed(kernel))
    return failure();
  const Shape x = self->shape();
  if (x.size() != 4 || kernel->size() != 2)
    return node.error() << "is supported on batches of images only";
  auto window = readWindow(node, *kernel, "stride", {1, 1}, ArrayRef(x).drop_front(2));
  if (failed(window) || failed(node.checkShape(*kernel)) ||
      failed(node.chargeNodes(4 * product(*kernel))))
    return failure();
  Emitter &emit = node.emit;
  Value padded = pad(emit, node.value(*self), {0, 0, window->low[0], window->low[1]},
                     {0, 0, window->high[0], window->high[1]}, 0);
  const Shape count = countWindows(*window, ArrayRef(x).drop_front(2), false);
  std::vector<Tensor> parts;
  for (int64_t row = 0; row < (*kernel)[0]; ++row)
    for (int64_t column = 0; column < (*kernel)[1]; ++column) {
      Value part =
          sliceDim(emit, padded, 2, row * window->dilations[0], count[0], window->strides[0]);
      part = sliceDim(emit, part, 3, column * window->dilations[1], count[1], window->strides[1]);
      parts.push_back(Tensor(reshape(emit, part, {x[0], x[1], 1, product(count)})));
    }
  auto all = concatTensors(node, parts, 2);
  return failed(all) ? failure()
                     : node.define(reshapeTensor(node, *all,
                                                 {x[0], x[1] * product(*kernel), product(count)}));
}

/// Of a single image without a batch, too.
static LogicalResult convertFold(AtenConverter &node) {
  auto self = node.tensor("self");
  auto image = node.integers("output_size"), kernel = node.integers("kernel_size");
  if (failed(self) || failed(image) || failed(kernel))
    return failure();
  Shape shape = self->shape();
  const bool isSingle = shape.size() == 2;
  if (isSingle)
    shape.insert(shape.begin(), 1);
  if (image->size() != 2 || kernel->size() != 2 || shape.size() != 3)
    return node.error() << "is supported on images only";
  auto window = readWindow(node, *kernel, "stride", {1, 1}, *image);
  if (failed(window))
    return failure();
  auto sum = sumBlocks(node, reshapeTensor(node, *self, shape), *window, *image);
  if (failed(sum) || !isSingle)
    return node.define(sum);
  return node.define(reshapeTensor(node, *sum, ArrayRef(sum->shape()).drop_front()));
}

void addVision(AtenTable &table) {
  for (const char *op :
       {"aten.conv1d", "aten.conv2d", "aten.conv3d", "aten.convolution", "aten._convolution_mode"})
    table[op] = convertConvolution;
  for (const char *op : {"aten.max_pool1d", "aten.max_pool2d", "aten.max_pool3d", "aten.avg_pool1d",
                         "aten.avg_pool2d", "aten.avg_pool3d"})
    table[op] = convertPool;
  for (const char *op : {"aten.conv_transpose1d", "aten.conv_transpose2d", "aten.conv_transpose3d"})
    table[op] = convertConvolution;
  table["aten.im2col"] = convertBlocks;
  table["aten.col2im"] = convertFold;
}

} // namespace dtc::import
