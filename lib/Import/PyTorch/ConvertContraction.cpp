// Matrix products, attention and convolutions.
#include "AtenConverter.h"

#include "dtc/Import/Build/Attention.h"
#include "dtc/Import/Build/Contraction.h"
#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/Reduction.h"
#include "dtc/Import/Build/Windows.h"
#include "dtc/Import/Unsupported.h"

using namespace mlir;

namespace dtc::import {

static LogicalResult convertMatmul(AtenConverter &node) {
  auto left = node.tensor("self");
  auto right = node.tensor(node.op() == "aten.matmul" ? "other"
                           : node.op() == "aten.mv"   ? "vec"
                                                      : "mat2");
  if (failed(left) || failed(right))
    return failure();
  return node.define(matmulTensors(node, *left, *right));
}

/// x [..., in], weight [out, in]: one contraction, without a transposed copy of the weight.
static LogicalResult convertLinear(AtenConverter &node) {
  auto input = node.tensor("input"), weight = node.tensor("weight");
  auto bias = node.optionalTensor("bias");
  if (failed(input) || failed(weight) || failed(bias))
    return failure();
  const Shape x = input->shape(), w = weight->shape();
  if (x.empty() || w.size() != 2 || x.back() != w[1] || !isa<FloatType>(input->element()) ||
      input->element() != weight->element())
    return node.error() << "operands of shapes or types that do not fit: " << listed(x) << " and "
                        << listed(w);
  const int64_t lead = x.size() - 1;
  Shape indices = llvm::to_vector(llvm::seq<int64_t>(lead)), result = indices;
  indices.push_back(lead + 1);
  result.push_back(lead);
  Value product = contract(node.emit, node.value(*input), indices, node.value(*weight),
                           {lead, lead + 1}, result);
  if (!*bias)
    return node.define(product);
  return node.define(binary(node, "Add", Tensor(product), **bias));
}

/// beta * self + alpha * (a @ b)
static LogicalResult convertAddedProduct(AtenConverter &node) {
  const bool batched = node.op() == "aten.baddbmm";
  auto self = node.tensor("self");
  auto left = node.tensor(batched ? "batch1" : "mat1");
  auto right = node.tensor(batched ? "batch2" : "mat2");
  auto beta = node.number("beta", 1), alpha = node.number("alpha", 1);
  if (failed(self) || failed(left) || failed(right) || failed(beta) || failed(alpha))
    return failure();
  auto scaled = [&](FailureOr<Tensor> tensor, double factor) {
    if (failed(tensor) || factor == 1)
      return tensor;
    Host constant = HostTensor::splat(tensor->element(), {}, factor);
    return binary(node, "Mul", *tensor, Tensor(constant));
  };
  auto product = scaled(matmulTensors(node, *left, *right), *alpha);
  if (failed(product) || *beta == 0)
    return node.define(product);
  auto term = scaled(*self, *beta);
  return failed(term) ? failure() : node.define(binary(node, "Add", *product, *term));
}

static LogicalResult convertEinsum(AtenConverter &node) {
  auto equation = node.text("equation", std::nullopt);
  auto operands = node.tensors("tensors");
  if (failed(equation) || failed(operands))
    return failure();
  return node.define(einsum(node, *equation, *operands));
}

/// [batch, head, position, feature] as [batch, position, head, feature]; without heads there is
/// one.
static FailureOr<Value> byPosition(AtenConverter &node, StringRef name) {
  auto tensor = node.tensor(name);
  if (failed(tensor))
    return failure();
  const Shape shape = tensor->shape();
  Value value = node.value(*tensor);
  if (shape.size() == 4)
    return transpose(node.emit, value, {0, 2, 1, 3});
  if (shape.size() == 3)
    return reshape(node.emit, value, {shape[0], shape[1], 1, shape[2]});
  return LogicalResult(node.error() << "needs " << name << " with three or four dimensions");
}

static LogicalResult convertAttention(AtenConverter &node) {
  auto q = byPosition(node, "query"), k = byPosition(node, "key"), v = byPosition(node, "value");
  auto mask = node.optionalTensor("attn_mask");
  auto causal = node.boolean("is_causal", false);
  auto dropout = node.number("dropout_p", 0);
  if (failed(q) || failed(k) || failed(v) || failed(mask) || failed(causal) || failed(dropout))
    return failure();
  AttentionOperands operands = {*q, *k, *v, nullptr, std::nullopt, *causal, *dropout};
  operands.mask = *mask ? &**mask : nullptr;
  if (node.has("scale")) {
    auto scale = node.number("scale");
    if (failed(scale))
      return failure();
    operands.scale = scale;
  }
  auto query = node.tensor("query");
  const bool heads = query->rank() == 4;
  if (*mask && !heads)
    return node.error() << "with a mask needs four dimensions";
  auto result = attention(node, operands);
  if (failed(result))
    return failure();
  if (heads)
    return node.define(transpose(node.emit, *result, {0, 2, 1, 3}));
  auto shape = graph::shapeOf(*result);
  return node.define(reshape(node.emit, *result, {shape[0], shape[1], shape[3]}));
}

void addContractions(AtenTable &table) {
  for (const char *op : {"aten.matmul", "aten.mm", "aten.bmm", "aten.mv"})
    table[op] = convertMatmul;
  table["aten.linear"] = convertLinear;
  for (const char *op : {"aten.addmm", "aten.baddbmm"})
    table[op] = convertAddedProduct;
  table["aten.einsum"] = convertEinsum;
  table["aten.scaled_dot_product_attention"] = convertAttention;
}

/// A size for each of `n` dimensions; one stands for all, none for `byDefault`.
static FailureOr<Shape> perDim(AtenConverter &node, StringRef name, size_t n, Shape byDefault) {
  auto list = node.integers(name, Shape());
  if (failed(list))
    return failure();
  if (list->empty())
    return byDefault;
  return list->size() == 1 ? Shape(n, list->front()) : *list;
}

static FailureOr<Window> readWindow(AtenConverter &node, const Shape &kernel, StringRef stride,
                                    const Shape &strideByDefault, ArrayRef<int64_t> sizes) {
  const size_t n = sizes.size();
  auto strides = perDim(node, stride, n, strideByDefault);
  auto padding = perDim(node, "padding", n, Shape(n, 0));
  auto dilations = perDim(node, "dilation", n, Shape(n, 1));
  if (failed(strides) || failed(padding) || failed(dilations))
    return failure();
  Window window = {kernel, *strides, *dilations, *padding, *padding};
  if (failed(checkWindow(node, window, sizes)))
    return failure();
  return window;
}

static LogicalResult convertConvolution(AtenConverter &node) {
  auto input = node.tensor("input"), weight = node.tensor("weight");
  auto bias = node.optionalTensor("bias");
  auto groups = node.integer("groups", 1);
  auto transposed = node.boolean("transposed", false);
  if (failed(input) || failed(weight) || failed(bias) || failed(groups) || failed(transposed))
    return failure();
  if (*transposed)
    return unsupported(node.error()) << "is not supported transposed";
  const Shape x = input->shape(), w = weight->shape();
  if (x.size() < 3 || w.size() != x.size())
    return node.error() << "operands of shapes that do not fit: " << listed(x) << " and "
                        << listed(w);
  auto window = readWindow(node, Shape(ArrayRef(w).drop_front(2)), "stride", Shape(x.size() - 2, 1),
                           ArrayRef(x).drop_front(2));
  if (failed(window))
    return failure();
  return node.define(convolve(node, *input, *weight, *bias ? &**bias : nullptr, *window, *groups));
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

/// Windows of equal size where they divide the input; the mean of all where one is asked for.
static LogicalResult convertAdaptivePool(AtenConverter &node) {
  auto self = node.tensor("self");
  if (failed(self))
    return failure();
  const Shape x = self->shape();
  const bool is1d = node.op() == "aten.adaptive_avg_pool1d";
  const int64_t n = is1d ? 1 : 2, lead = self->rank() - n;
  auto asked = perDim(node, "output_size", n, {});
  if (failed(asked))
    return failure();
  if (lead < 1 || int64_t(asked->size()) != n)
    return node.error() << "is supported with spatial dimensions only";
  if (*asked == Shape(n, 1))
    return node.define(reduceTensor(node, "ReduceMean", *self,
                                    llvm::to_vector(llvm::seq<int64_t>(lead, self->rank())),
                                    /*keepDims=*/true));
  Window window;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t size = x[lead + i], out = (*asked)[i];
    if (out < 1 || size % out != 0)
      return node.error() << "is supported where the output divides the input: " << size << " and "
                          << out;
    window.kernel.push_back(size / out);
  }
  window.strides = window.kernel;
  window.dilations.assign(n, 1);
  window.low.assign(n, 0);
  window.high.assign(n, 0);
  if (lead != 2 || failed(checkWindow(node, window, ArrayRef(x).drop_front(lead))))
    return node.error() << "is supported on batches only";
  return node.define(averagePool(node, *self, window, false, false));
}

void addVision(AtenTable &table) {
  for (const char *op : {"aten.conv1d", "aten.conv2d", "aten.conv3d", "aten.convolution"})
    table[op] = convertConvolution;
  for (const char *op : {"aten.max_pool1d", "aten.max_pool2d", "aten.max_pool3d", "aten.avg_pool1d",
                         "aten.avg_pool2d", "aten.avg_pool3d"})
    table[op] = convertPool;
  for (const char *op : {"aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d"})
    table[op] = convertAdaptivePool;
}

} // namespace dtc::import
