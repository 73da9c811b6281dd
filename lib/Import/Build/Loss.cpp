#include "dtc/Import/Build/Loss.h"

using namespace mlir;

namespace dtc::import {

namespace {
/// The inputs of a loss by class, its classes brought to the end: scores[n, ..., c] and
/// target[n, ...], the latter in i64.
struct LossInputs {
  Value scores, target;
};
} // namespace

static FailureOr<LossInputs> readInputs(Conversion &node, const Tensor &of, const Tensor &classes) {
  Shape scores = of.shape(), target = classes.shape();
  Shape rows = scores, toLast;
  if (scores.size() >= 2)
    rows.erase(rows.begin() + 1);
  if (scores.size() < 2 || target != rows)
    return LogicalResult(node.error() << "takes scores [n, classes, ...] and targets [n, ...]");
  for (int64_t i = 0; i < static_cast<int64_t>(scores.size()); ++i)
    if (i != 1)
      toLast.push_back(i);
  toLast.push_back(1);
  LossInputs loss;
  loss.scores = transpose(node.emit, node.value(of), toLast);
  loss.target = castTo(node.emit, node.value(classes), node.emit.getI64Type());
  return loss;
}

/// Of the losses by row what is asked for; `counted` are the rows that aren't ignored.
static Value reduced(Emitter &emit, Value rows, Value counted, Type element,
                     LossReduction reduction) {
  Shape all;
  for (int64_t i = 0; i < tensorType(rows).getRank(); ++i)
    all.push_back(i);
  if (reduction == LossReduction::None)
    return castTo(emit, rows, element);
  Value result = reduce(emit, graph::ReduceKind::Sum, rows, all);
  if (reduction == LossReduction::Mean) {
    Value count = reduce(emit, graph::ReduceKind::Sum, castTo(emit, counted, elementOf(rows)), all);
    result = arith::DivFOp::create(emit, result, count);
  }
  return castTo(emit, result, element);
}

static Value isCounted(Emitter &emit, Value target, int64_t ignore) {
  auto type = tensorType(target);
  auto ignored = arith::ConstantOp::create(
      emit, DenseElementsAttr::get(type, APInt(64, static_cast<uint64_t>(ignore))));
  return arith::CmpIOp::create(emit, arith::CmpIPredicate::ne, target, ignored);
}

FailureOr<Tensor> crossEntropy(Conversion &node, const Tensor &scores, const Tensor &target,
                               const ClassLoss &asked) {
  FailureOr<LossInputs> loss = readInputs(node, scores, target);
  if (failed(loss))
    return failure();
  Emitter &emit = node.emit;
  Type statistic = elementOf(loss->scores).isF64() ? Type(emit.getF64Type()) : emit.getF32Type();
  RankedTensorType rows = tensorType(loss->target).clone(statistic);
  auto made =
      graph::CrossEntropyOp::create(emit, rows, rows, loss->scores, loss->target, asked.ignore);
  Value counted = isCounted(emit, loss->target, asked.ignore);
  return Tensor(reduced(emit, made.getLoss(), counted, scores.element(), asked.reduction));
}

// A target that is no class gives NaN, as in the cross entropy.
FailureOr<Tensor> logLikelihood(Conversion &node, const Tensor &scores, const Tensor &target,
                                const ClassLoss &asked) {
  FailureOr<LossInputs> loss = readInputs(node, scores, target);
  if (failed(loss))
    return failure();
  Emitter &emit = node.emit;
  Shape rows = Shape(tensorType(loss->target).getShape()), single = rows;
  single.push_back(1);
  auto classes = arith::ConstantOp::create(
      emit, DenseElementsAttr::get(tensorType(loss->target),
                                   APInt(64, tensorType(loss->scores).getShape().back())));
  Value isClass = arith::CmpIOp::create(emit, arith::CmpIPredicate::ult, loss->target, classes);
  Value counted = isCounted(emit, loss->target, asked.ignore);
  Value index =
      arith::SelectOp::create(emit, isClass, loss->target, splatLike(emit, loss->target, 0));
  Value picked = pickEach(emit, loss->scores, reshape(emit, index, single));
  Value negated = arith::NegFOp::create(emit, reshape(emit, picked, rows));
  Value none = splatLike(emit, negated, std::numeric_limits<double>::quiet_NaN());
  Value each = arith::SelectOp::create(emit, isClass, negated, none);
  each = arith::SelectOp::create(emit, counted, each, splatLike(emit, each, 0));
  return Tensor(reduced(emit, each, counted, scores.element(), asked.reduction));
}

} // namespace dtc::import
