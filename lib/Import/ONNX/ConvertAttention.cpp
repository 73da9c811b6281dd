// The Attention and RotaryEmbedding operators of opset 23 and later.
#include "Movement.h"

#include <cmath>

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

/// The mask as a term of the scores, repeated to their shape.
static FailureOr<Value> biasOf(NodeConverter &node, ArrayRef<int64_t> scores) {
  Emitter &emit = node.emit;
  const Tensor &mask = node.input(3);
  auto shape = broadcastShapes({Shape(scores), mask.shape()});
  if (failed(shape) || ArrayRef(*shape) != scores)
    return LogicalResult(node.error() << "has a mask of a shape that does not fit: "
                                      << listed(mask.shape()));
  if (!mask.element().isInteger(1))
    return node.valueAs(mask, scores);
  Value seen = node.value(3);
  auto type = tensorType(seen).clone(node.input(0).element());
  Value term = arith::SelectOp::create(emit, seen, splat(emit, type, 0),
                                       splat(emit, type, -INFINITY));
  return broadcastTo(emit, term, scores);
}

/// Attention in simple ops, for a bias that trains: dtc.attention gives it no gradient.
static Value spellOut(Emitter &emit, Value q, Value k, Value v, Value bias, double scale) {
  Value scores = contract(emit, q, {0, 2, 1, 4}, k, {0, 3, 1, 4}, {0, 1, 2, 3});
  scores = arith::MulFOp::create(emit, scores, splatLike(emit, scores, scale));
  scores = arith::AddFOp::create(emit, scores, bias);
  Value probs = graph::SoftmaxOp::create(emit, scores.getType(), scores, 3);
  return contract(emit, probs, {0, 2, 1, 4}, v, {0, 4, 2, 3}, {0, 1, 2, 3});
}

static LogicalResult convertAttention(NodeConverter &node) {
  Emitter &emit = node.emit;
  if (node.has(4) || node.has(5) || node.has(6))
    return node.error() << "with past keys or padded lengths is not supported";
  if (node.attrFloat("softcap", 0) != 0)
    return node.error() << "has an unsupported attribute softcap: "
                        << node.attrFloat("softcap", 0);
  Value q = byPosition(node, 0, node.attrInt("q_num_heads", 0));
  Value k = byPosition(node, 1, node.attrInt("kv_num_heads", 0));
  Value v = byPosition(node, 2, node.attrInt("kv_num_heads", 0));
  if (!q || !k || !v)
    return node.error() << "operands of unexpected ranks";
  auto qs = graph::shapeOf(q), ks = graph::shapeOf(k), vs = graph::shapeOf(v);
  if (qs[0] != ks[0] || qs[3] != ks[3] || ks.take_front(3) != vs.take_front(3) || ks[2] == 0 ||
      qs[2] % ks[2] != 0)
    return node.error() << "operands of shapes that do not fit";
  const bool causal = node.attrInt("is_causal", 0);
  if (causal && qs[1] != ks[1])
    return node.error() << "is causal with as many queries as keys only: " << qs[1] << " and "
                        << ks[1];
  if (failed(node.checkShape({qs[0], qs[2], qs[1], ks[1]})) ||
      failed(node.checkShape({qs[0], qs[1], qs[2], vs[3]})))
    return failure();
  Value bias;
  if (node.has(3)) {
    auto term = biasOf(node, {qs[0], qs[2], qs[1], ks[1]});
    if (failed(term))
      return failure();
    bias = *term;
  }
  const auto *scale = node.attribute("scale");
  const double factor = scale && scale->f() != 0 ? scale->f() : 1 / std::sqrt(double(qs[3]));
  auto defineResult = [&](Value result) { // [b,s,heads,feature]
    if (node.input(0).rank() == 4)
      return node.define(transpose(emit, result, {0, 2, 1, 3}));
    return node.define(reshape(emit, result, {qs[0], qs[1], qs[2] * vs[3]}));
  };
  if (bias && dependsOnParameter(bias)) {
    if (causal || qs[2] != ks[2])
      return node.error() << "with a trained mask is not supported beside is_causal or shared "
                             "key-value heads";
    return defineResult(spellOut(emit, q, k, v, bias, factor));
  }
  Type statistic = elementOf(q).isF64() ? emit.getF64Type() : emit.getF32Type();
  auto attention = graph::AttentionOp::create(
      emit, tensorType(q).clone({qs[0], qs[1], qs[2], vs[3]}),
      RankedTensorType::get({qs[0], qs[2], qs[1]}, statistic), q, k, v, bias,
      emit.getF64FloatAttr(factor), causal ? emit.getUnitAttr() : UnitAttr());
  return defineResult(attention.getResult());
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

static LogicalResult convertRotaryEmbedding(NodeConverter &node) {
  Emitter &emit = node.emit;
  Value x = byPosition(node, 0, node.attrInt("num_heads", 0));
  if (!x || (node.has(3) && (node.input(1).rank() != 2 || node.input(2).rank() != 2)))
    return node.error() << "operands of unexpected ranks";
  if (node.attrInt("interleaved", 0))
    return node.error() << "is supported with halves, not interleaved";
  const Shape shape(tensorType(x).getShape());
  int64_t rotated = node.attrInt("rotary_embedding_dim", 0);
  rotated = rotated == 0 ? shape[3] : rotated;
  if (rotated % 2 != 0 || rotated < 0 || rotated > shape[3])
    return node.error() << "has a bad rotary_embedding_dim: " << rotated;
  Value first = sliceDim(emit, x, 3, 0, rotated / 2);
  Value second = sliceDim(emit, x, 3, rotated / 2, rotated / 2);
  auto half = graph::shapeOf(first);
  Value cos = rotation(node, 1, half), sin = rotation(node, 2, half);
  if (!cos || !sin)
    return node.error() << "tables of shapes that do not fit";
  auto mul = [&](Value a, Value b) { return arith::MulFOp::create(emit, a, b).getResult(); };
  SmallVector<Value> parts = {
      arith::SubFOp::create(emit, mul(cos, first), mul(sin, second)),
      arith::AddFOp::create(emit, mul(sin, first), mul(cos, second))};
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
