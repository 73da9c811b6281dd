#include "dtc/Import/Build/Attention.h"

#include "dtc/Import/Build/Dropout.h"

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

/// -inf where a query of `scores` comes before the key.
static Value causalBias(Emitter &emit, RankedTensorType scores) {
  auto type = scores.clone(emit.getI64Type());
  Value query = graph::IotaOp::create(emit, type, 2), key = graph::IotaOp::create(emit, type, 3);
  Value seen = arith::CmpIOp::create(emit, arith::CmpIPredicate::sge, query, key);
  return arith::SelectOp::create(emit, seen, splat(emit, scores, 0),
                                 splat(emit, scores, -INFINITY));
}

/// Attention in simple ops, for what dtc.attention doesn't have: a bias that trains, and dropout.
static FailureOr<Value> spellOut(Conversion &node, const AttentionOperands &operands, Value bias,
                                 double scale) {
  Emitter &emit = node.emit;
  auto [q, k, v] = std::tuple(operands.query, operands.key, operands.value);
  Value scores = contract(emit, q, {0, 2, 1, 4}, k, {0, 3, 1, 4}, {0, 1, 2, 3});
  scores = arith::MulFOp::create(emit, scores, splatLike(emit, scores, scale));
  if (bias)
    scores = arith::AddFOp::create(emit, scores, bias);
  if (operands.causal)
    scores = arith::AddFOp::create(emit, scores, causalBias(emit, tensorType(scores)));
  Value whole = graph::SoftmaxOp::create(emit, scores.getType(), scores, 3);
  auto probs = dropout(node, Tensor(whole), operands.dropout);
  if (failed(probs))
    return failure();
  return contract(emit, probs->value, {0, 2, 1, 4}, v, {0, 4, 2, 3}, {0, 1, 2, 3});
}

FailureOr<Value> attention(Conversion &node, const AttentionOperands &operands) {
  Emitter &emit = node.emit;
  auto [q, k, v, mask, scale, causal, dropped] = operands;
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
  if (dropped != 0 || (bias && dependsOnParameter(bias))) {
    if (qs[2] != ks[2])
      return LogicalResult(node.error() << "with a trained mask or dropout is not supported beside "
                                           "shared key-value heads");
    return spellOut(node, operands, bias, factor);
  }
  Type statistic = elementOf(q).isF64() ? emit.getF64Type() : emit.getF32Type();
  auto made = graph::AttentionOp::create(emit, tensorType(q).clone({qs[0], qs[1], qs[2], vs[3]}),
                                         RankedTensorType::get({qs[0], qs[2], qs[1]}, statistic), q,
                                         k, v, bias, emit.getF64FloatAttr(factor),
                                         causal ? emit.getUnitAttr() : UnitAttr());
  return Value(made.getResult());
}

} // namespace dtc::import
