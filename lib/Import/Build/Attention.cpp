#include "dtc/Import/Build/Attention.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Build/Dropout.h"
#include "dtc/Import/Unsupported.h"

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

/// Heads of keys or values, each repeated for the queries that share it.
static Value shareHeads(Emitter &emit, Value value, int64_t heads) {
  Shape shape(tensorType(value).getShape()), full = shape;
  if (shape[2] == heads)
    return value;
  full.insert(full.begin() + 3, heads / shape[2]);
  shape[2] = heads;
  return reshape(emit, broadcastAlong(emit, value, full, {0, 1, 2, 4}), shape);
}

double scaleOf(const AttentionOperands &operands) {
  const double features = double(graph::shapeOf(operands.query)[3]);
  return operands.scale.value_or(1 / std::sqrt(features));
}

/// 1 where no key of a query is seen.
static Value seesNothing(graph::TensorBuilder &b, Value bias) {
  Value largest = b.reduce(graph::ReduceKind::Max, bias, {3});
  Value nothing = b.compare(arith::CmpFPredicate::OEQ, largest, -INFINITY);
  return b.spread(nothing, graph::shapeOf(bias), {3});
}

FailureOr<SpelledAttention> spellOutAttention(Conversion &node, const AttentionOperands &operands,
                                              Value bias, double softcap, bool guarded) {
  Emitter &emit = node.emit;
  graph::TensorBuilder b(emit, emit.getLoc());
  const int64_t heads = graph::shapeOf(operands.query)[2];
  Value q = operands.query, k = shareHeads(emit, operands.key, heads),
        v = shareHeads(emit, operands.value, heads);
  SpelledAttention spelled;
  spelled.products =
      b.scale(contract(emit, q, {0, 2, 1, 4}, k, {0, 3, 1, 4}, {0, 1, 2, 3}), scaleOf(operands));
  Value scores = spelled.products;
  if (softcap != 0)
    scores = b.scale(b.unary<math::TanhOp>(b.scale(scores, 1 / softcap)), softcap);
  spelled.capped = scores;
  spelled.biased = bias ? b.add(scores, bias) : scores;
  Value blind = bias && guarded ? seesNothing(b, bias) : Value();
  scores = blind ? b.add(scores, b.selectOr(blind, 0.0, bias)) : spelled.biased;
  if (operands.causal)
    scores = b.add(scores, causalBias(emit, tensorType(scores)));
  Value whole = graph::SoftmaxOp::create(emit, scores.getType(), scores, 3);
  spelled.probabilities = blind ? b.selectOr(blind, 0.0, whole) : whole;
  auto probs = dropout(node, Tensor(spelled.probabilities), operands.dropout);
  if (failed(probs))
    return failure();
  spelled.result = contract(emit, probs->value, {0, 2, 1, 4}, v, {0, 4, 2, 3}, {0, 1, 2, 3});
  return spelled;
}

FailureOr<Value> attention(Conversion &node, const AttentionOperands &operands) {
  Emitter &emit = node.emit;
  const auto &[q, k, v, mask, scale, causal, dropped] = operands;
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
  if (dropped != 0 || (bias && dependsOnParameter(bias))) {
    if (qs[2] != ks[2])
      return LogicalResult(unsupported(node.error())
                           << "with a trained mask or dropout is not supported beside "
                              "shared key-value heads");
    auto spelled = spellOutAttention(node, operands, bias, /*softcap=*/0, /*guarded=*/false);
    return failed(spelled) ? FailureOr<Value>(failure()) : spelled->result;
  }
  Type statistic = elementOf(q).isF64() ? emit.getF64Type() : emit.getF32Type();
  auto made = graph::AttentionOp::create(emit, tensorType(q).clone({qs[0], qs[1], qs[2], vs[3]}),
                                         RankedTensorType::get({qs[0], qs[2], qs[1]}, statistic), q,
                                         k, v, bias, emit.getF64FloatAttr(scaleOf(operands)),
                                         causal ? emit.getUnitAttr() : UnitAttr(), IntegerAttr());
  return Value(made.getResult());
}

} // namespace dtc::import
