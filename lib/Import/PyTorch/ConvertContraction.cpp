// Matrix products and attention.
#include "AtenConverter.h"

#include "dtc/Import/Build/Attention.h"
#include "dtc/Import/Build/Contraction.h"
#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/Movement.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace dtc::import {

static LogicalResult convertMatmul(AtenConverter &node) {
  auto left = node.tensor("self");
  const StringRef name = llvm::StringSwitch<StringRef>(node.op())
                             .Cases("aten.matmul", "aten.vdot", "other")
                             .Case("aten.mv", "vec")
                             .Case("aten.dot", "tensor")
                             .Default("mat2");
  auto right = node.tensor(name);
  if (failed(left) || failed(right))
    return failure();
  return node.define(matmulTensors(node, *left, *right));
}

/// Each element of one vector times each of another.
static LogicalResult convertOuter(AtenConverter &node) {
  auto self = node.tensor("self"), other = node.tensor("vec2");
  if (failed(self) || failed(other))
    return failure();
  if (self->rank() != 1 || other->rank() != 1)
    return node.error() << "needs two vectors";
  const Tensor column = reshapeTensor(node, *self, {self->shape()[0], 1});
  auto type = promoted({column}, {*other});
  auto left = cast(node, column, type), right = cast(node, *other, type);
  if (failed(left) || failed(right))
    return failure();
  return node.define(binary(node, "Mul", *left, *right));
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

/// input1 [..., i], input2 [..., j], weight [out, i, j]
static LogicalResult convertBilinear(AtenConverter &node) {
  auto left = node.tensor("input1"), right = node.tensor("input2"), weight = node.tensor("weight");
  auto bias = node.optionalTensor("bias");
  if (failed(left) || failed(right) || failed(weight) || failed(bias))
    return failure();
  if (left->rank() < 1 || left->rank() != right->rank() || weight->rank() != 3)
    return node.error() << "operands of shapes that do not fit: " << listed(left->shape()) << ", "
                        << listed(right->shape()) << " and " << listed(weight->shape());
  auto product = einsum(node, "...i,oij,...j->...o", {*left, *weight, *right});
  if (failed(product) || !*bias)
    return node.define(product);
  return node.define(binary(node, "Add", *product, **bias));
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
  for (const char *op : {"aten.matmul", "aten.mm", "aten.bmm", "aten.mv", "aten.dot", "aten.vdot"})
    table[op] = convertMatmul;
  for (const char *op : {"aten.outer", "aten.ger"})
    table[op] = convertOuter;
  table["aten.linear"] = convertLinear;
  for (const char *op : {"aten.addmm", "aten.baddbmm"})
    table[op] = convertAddedProduct;
  table["aten.einsum"] = convertEinsum;
  table["aten.bilinear"] = convertBilinear;
  table["aten.scaled_dot_product_attention"] = convertAttention;
}

} // namespace dtc::import
