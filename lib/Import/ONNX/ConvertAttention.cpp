// The Attention and RotaryEmbedding operators of opset 23 and later.
#include "GraphBuilder.h"
#include "dtc/Import/Build/Attention.h"

using namespace mlir;

namespace dtc::import {

/// [b,heads,s,e], or [b,s,heads*e], as [b,s,heads,e]; null where it is neither.
static Value byPosition(NodeConverter &node, int index, int64_t heads) {
  Value value = node.value(index);
  const Shape shape(tensorType(value).getShape());
  if (shape.size() == 4)
    return transpose(node.emit, value, {0, 2, 1, 3});
  if (shape.size() != 3 || heads < 1 || shape[2] % heads != 0)
    return {};
  return reshape(node.emit, value, {shape[0], shape[1], heads, shape[2] / heads});
}

/// Later opsets give the operator further attributes, such as windows, that change its result.
static LogicalResult checkAttributes(NodeConverter &node) {
  for (const auto &attribute : node.node.attribute())
    if (!llvm::is_contained({"is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode",
                             "scale", "softcap", "softmax_precision"},
                            StringRef(attribute.name())))
      return node.error() << "has an unsupported attribute: " << attribute.name();
  return success();
}

static LogicalResult convertAttention(NodeConverter &node) {
  Emitter &emit = node.emit;
  if (failed(checkAttributes(node)))
    return failure();
  if (node.has(4) || node.has(5) || node.has(6))
    return node.error() << "with past keys or padded lengths is not supported";
  if (node.attrFloat("softcap", 0) != 0)
    return node.error() << "has an unsupported attribute softcap: "
                        << node.attrFloat("softcap", 0);
  AttentionOperands operands;
  operands.query = byPosition(node, 0, node.attrInt("q_num_heads", 0));
  operands.key = byPosition(node, 1, node.attrInt("kv_num_heads", 0));
  operands.value = byPosition(node, 2, node.attrInt("kv_num_heads", 0));
  if (!operands.query || !operands.key || !operands.value)
    return node.error() << "operands of unexpected ranks";
  operands.mask = node.has(3) ? &node.input(3) : nullptr;
  const auto *scale = node.attribute("scale");
  if (scale && scale->f() != 0)
    operands.scale = scale->f();
  operands.causal = node.attrInt("is_causal", 0);
  auto result = attention(node, operands);
  if (failed(result))
    return failure();
  if (node.input(0).rank() == 4)
    return node.define(transpose(emit, *result, {0, 2, 1, 3}));
  auto shape = graph::shapeOf(*result);
  return node.define(reshape(emit, *result, {shape[0], shape[1], shape[2] * shape[3]}));
}

/// cos or sin per position as [b,s,1 or absent,...] broadcast to the halves [b,s,heads,half].
static Value rotation(NodeConverter &node, int cache, ArrayRef<int64_t> half) {
  Emitter &emit = node.emit;
  Value table = node.value(cache);
  if (node.has(3))
    table = gather(emit, table, node.value(3), 0);
  if (tensorType(table).getShape() != ArrayRef<int64_t>{half[0], half[1], half[3]})
    return {};
  return broadcastAlong(emit, table, half, {0, 1, 3});
}

/// The elements at even (0) or odd (1) places of the last of four dimensions.
static Value everySecond(Emitter &emit, Value value, int64_t first) {
  const int64_t size = tensorType(value).getDimSize(3);
  return sliceDim(emit, value, 3, first, size / 2, 2);
}

/// Both halves, their elements in turn.
static Value interleave(Emitter &emit, Value first, Value second) {
  Shape shape(tensorType(first).getShape()), single = shape;
  single.push_back(1);
  Shape pair = single;
  pair.back() = 2;
  shape.back() *= 2;
  SmallVector<Value> parts = {reshape(emit, first, single), reshape(emit, second, single)};
  auto type = tensorType(first).clone(pair);
  return reshape(emit, graph::ConcatOp::create(emit, type, parts, 4), shape);
}

static LogicalResult convertRotaryEmbedding(NodeConverter &node) {
  Emitter &emit = node.emit;
  Value x = byPosition(node, 0, node.attrInt("num_heads", 0));
  if (!x || (node.has(3) && (node.input(1).rank() != 2 || node.input(2).rank() != 2)))
    return node.error() << "operands of unexpected ranks";
  const bool interleaved = node.attrInt("interleaved", 0);
  const Shape shape(tensorType(x).getShape());
  int64_t rotated = node.attrInt("rotary_embedding_dim", 0);
  rotated = rotated == 0 ? shape[3] : rotated;
  if (rotated % 2 != 0 || rotated < 0 || rotated > shape[3])
    return node.error() << "has a bad rotary_embedding_dim: " << rotated;
  Value turned = sliceDim(emit, x, 3, 0, rotated);
  Value first = interleaved ? everySecond(emit, turned, 0) : sliceDim(emit, x, 3, 0, rotated / 2);
  Value second =
      interleaved ? everySecond(emit, turned, 1) : sliceDim(emit, x, 3, rotated / 2, rotated / 2);
  auto half = graph::shapeOf(first);
  Value cos = rotation(node, 1, half), sin = rotation(node, 2, half);
  if (!cos || !sin)
    return node.error() << "tables of shapes that do not fit";
  auto mul = [&](Value a, Value b) { return arith::MulFOp::create(emit, a, b).getResult(); };
  SmallVector<Value> parts = {
      arith::SubFOp::create(emit, mul(cos, first), mul(sin, second)),
      arith::AddFOp::create(emit, mul(sin, first), mul(cos, second))};
  if (interleaved)
    parts = {interleave(emit, parts[0], parts[1])};
  if (rotated < shape[3])
    parts.push_back(sliceDim(emit, x, 3, rotated, shape[3] - rotated));
  Value result = graph::ConcatOp::create(emit, x.getType(), parts, 3);
  if (node.input(0).rank() == 4)
    return node.define(transpose(emit, result, {0, 2, 1, 3}));
  return node.define(reshape(emit, result, node.input(0).shape()));
}

void addAttentionConverters(ConverterTable &table) {
  table["Attention"] = convertAttention;
  table["RotaryEmbedding"] = convertRotaryEmbedding;
}

} // namespace dtc::import
