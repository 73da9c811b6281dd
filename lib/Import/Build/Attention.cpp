#include "dtc/Import/Build/Attention.h"

#include <cmath>

using namespace mlir;

namespace dtc::import {

/// The mask as a term of the scores, repeated to their shape.
static FailureOr<Value> biasOf(Conversion &node, const Tensor &mask, Type element,
                               ArrayRef<int64_t> scores) {
  Emitter &emit = node.emit;
  auto shape = broadcastShapes({Shape(scores), mask.shape()});
  if (failed(shape) || ArrayRef(*shape) != scores)
    return LogicalResult(node.error()
                         << "has a mask of a shape that does not fit: " << listed(mask.shape()));
  if (!mask.element().isInteger(1))
    return node.valueAs(mask, scores);
  Value seen = node.value(mask);
  auto type = tensorType(seen).clone(element);
  Value term =
      arith::SelectOp::create(emit, seen, splat(emit, type, 0), splat(emit, type, -INFINITY));
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

FailureOr<Value> attention(Conversion &node, const AttentionOperands &operands) {
  Emitter &emit = node.emit;
  auto [q, k, v, mask, scale, causal] = operands;
  auto qs = graph::shapeOf(q), ks = graph::shapeOf(k), vs = graph::shapeOf(v);
  if (qs[0] != ks[0] || qs[3] != ks[3] || ks.take_front(3) != vs.take_front(3) || ks[2] == 0 ||
      qs[2] % ks[2] != 0)
    return LogicalResult(node.error() << "operands of shapes that do not fit");
  if (causal && qs[1] != ks[1])
    return LogicalResult(node.error() << "is causal with as many queries as keys only: " << qs[1]
                                      << " and " << ks[1]);
  if (failed(node.checkShape({qs[0], qs[2], qs[1], ks[1]})) ||
      failed(node.checkShape({qs[0], qs[1], qs[2], vs[3]})))
    return failure();
  Value bias;
  if (mask) {
    auto term = biasOf(node, *mask, elementOf(q), {qs[0], qs[2], qs[1], ks[1]});
    if (failed(term))
      return failure();
    bias = *term;
  }
  const double factor = scale.value_or(1 / std::sqrt(double(qs[3])));
  if (bias && dependsOnParameter(bias)) {
    if (causal || qs[2] != ks[2])
      return LogicalResult(node.error() << "with a trained mask is not supported beside is_causal "
                                           "or shared key-value heads");
    return spellOut(emit, q, k, v, bias, factor);
  }
  Type statistic = elementOf(q).isF64() ? emit.getF64Type() : emit.getF32Type();
  auto made = graph::AttentionOp::create(emit, tensorType(q).clone({qs[0], qs[1], qs[2], vs[3]}),
                                         RankedTensorType::get({qs[0], qs[2], qs[1]}, statistic), q,
                                         k, v, bias, emit.getF64FloatAttr(factor),
                                         causal ? emit.getUnitAttr() : UnitAttr());
  return Value(made.getResult());
}

} // namespace dtc::import
