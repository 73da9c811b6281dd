#include "dtc/Import/Build/Loss.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Build/Reduction.h"

using namespace mlir;

namespace dtc::import {

namespace {
/// The inputs of a loss by class, its classes brought to the end: scores[n, ..., c] and
/// target[n, ...], the latter in i64.
struct LossInputs {
  Value scores, target;
};
} // namespace

/// [n, classes, ...] -> [n, ..., classes].
static Value classesToLast(Conversion &node, const Tensor &of) {
  Shape toLast;
  for (int64_t i = 0; i < of.rank(); ++i)
    if (i != 1)
      toLast.push_back(i);
  toLast.push_back(1);
  return transpose(node.emit, node.value(of), toLast);
}

static FailureOr<LossInputs> readInputs(Conversion &node, const Tensor &of, const Tensor &classes) {
  Shape scores = of.shape(), target = classes.shape(), rows = scores;
  if (scores.size() >= 2)
    rows.erase(rows.begin() + 1);
  if (scores.size() < 2 || target != rows || isa<FloatType>(classes.element()))
    return LogicalResult(node.error() << "takes scores [n, classes, ...] and targets [n, ...]");
  LossInputs loss;
  loss.scores = classesToLast(node, of);
  loss.target = castTo(node.emit, node.value(classes), node.emit.getI64Type());
  return loss;
}

/// Of the losses by row what is asked for; `shares` is how much each row counts.
static Value reduced(Emitter &emit, Value rows, Value shares, Type element,
                     LossReduction reduction) {
  Shape all;
  for (int64_t i = 0; i < tensorType(rows).getRank(); ++i)
    all.push_back(i);
  if (reduction == LossReduction::None)
    return castTo(emit, rows, element);
  Value result = reduce(emit, graph::ReduceKind::Sum, rows, all);
  if (reduction == LossReduction::Mean) {
    Value count = reduce(emit, graph::ReduceKind::Sum, shares, all);
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

/// Where a target is a class.
static Value isClassOf(Emitter &emit, const LossInputs &loss) {
  const auto classes = static_cast<uint64_t>(tensorType(loss.scores).getShape().back());
  auto bound = arith::ConstantOp::create(
      emit, DenseElementsAttr::get(tensorType(loss.target), APInt(64, classes)));
  return arith::CmpIOp::create(emit, arith::CmpIPredicate::ult, loss.target, bound);
}

/// The targets, with 0 where they are no class.
static Value safeTarget(Emitter &emit, const LossInputs &loss) {
  return arith::SelectOp::create(emit, isClassOf(emit, loss), loss.target,
                                 splatLike(emit, loss.target, 0));
}

/// The weights of classes in an element type; null without any.
static FailureOr<Value> classWeights(Conversion &node, const ClassLoss &asked, int64_t classes,
                                     Type element) {
  if (!asked.weights)
    return Value();
  if (asked.weights->shape() != Shape{classes} || !isa<FloatType>(asked.weights->element()))
    return LogicalResult(node.error() << "takes a weight for each class");
  return castTo(node.emit, node.value(*asked.weights), element);
}

/// -log p of each class, multiplied by the shares that rows and `weights` (or null) give it, and
/// summed by row.
static Value entropy(Emitter &emit, Value scores, Value shares, Value weights, Type element) {
  const Shape shape = Shape(tensorType(scores).getShape());
  const int64_t last = shape.size() - 1;
  graph::TensorBuilder b(emit, emit.getLoc());
  Value each = logSoftmax(emit, castTo(emit, scores, element), last);
  if (shares)
    each = b.mul(each, shares);
  if (weights)
    each = b.mul(each, b.broadcast(weights, {last}, shape));
  return b.negate(b.sum(each, {last}));
}

/// The losses by row, multiplied by their classes' weights, and reduced.
static FailureOr<Tensor> weighted(Conversion &node, Value rows, const LossInputs &loss,
                                  const ClassLoss &asked, Type element) {
  Emitter &emit = node.emit;
  Value counted = isCounted(emit, loss.target, asked.ignore);
  Value shares = castTo(emit, counted, elementOf(rows));
  const int64_t classes = tensorType(loss.scores).getShape().back();
  auto given = classWeights(node, asked, classes, elementOf(rows));
  if (failed(given))
    return failure();
  if (Value weights = *given) {
    Value each = gather(emit, weights, safeTarget(emit, loss), 0);
    rows = arith::MulFOp::create(emit, rows, each);
    shares = arith::SelectOp::create(emit, counted, each, splatLike(emit, each, 0));
  }
  if (asked.smoothing != 0) {
    graph::TensorBuilder b(emit, emit.getLoc());
    Value alike = entropy(emit, loss.scores, {}, *given, elementOf(rows));
    rows = b.add(b.scale(rows, 1 - asked.smoothing),
                 b.scale(b.selectOr(counted, alike, 0.0), asked.smoothing / double(classes)));
  }
  return Tensor(reduced(emit, rows, shares, element, asked.reduction));
}

FailureOr<Tensor> crossEntropy(Conversion &node, const Tensor &scores, const Tensor &target,
                               const ClassLoss &asked) {
  FailureOr<LossInputs> loss = readInputs(node, scores, target);
  if (failed(loss))
    return failure();
  Emitter &emit = node.emit;
  Type statistic = graph::statisticsType(elementOf(loss->scores));
  RankedTensorType rows = tensorType(loss->target).clone(statistic);
  auto made =
      graph::CrossEntropyOp::create(emit, rows, rows, loss->scores, loss->target, asked.ignore);
  return weighted(node, made.getLoss(), *loss, asked, scores.element());
}

FailureOr<Tensor> crossEntropyOfShares(Conversion &node, const Tensor &scores, const Tensor &target,
                                       const ClassLoss &asked) {
  const Shape shape = scores.shape();
  if (shape.size() < 2 || target.shape() != shape)
    return LogicalResult(node.error()
                         << "takes scores and shares of classes alike: [n, classes, ...]");
  Emitter &emit = node.emit;
  const Type statistic = graph::statisticsType(scores.element());
  auto weights = classWeights(node, asked, shape[1], statistic);
  if (failed(weights))
    return failure();
  graph::TensorBuilder b(emit, emit.getLoc());
  Value shares = castTo(emit, classesToLast(node, target), statistic);
  if (asked.smoothing != 0)
    shares = b.offset(b.scale(shares, 1 - asked.smoothing), asked.smoothing / double(shape[1]));
  Value rows = entropy(emit, classesToLast(node, scores), shares, *weights, statistic);
  return Tensor(reduced(emit, rows, b.constantLike(rows, 1), scores.element(), asked.reduction));
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
  Value isClass = isClassOf(emit, *loss), counted = isCounted(emit, loss->target, asked.ignore);
  Value index = reshape(emit, safeTarget(emit, *loss), single);
  Value picked = pickEach(emit, loss->scores, index);
  Value negated = arith::NegFOp::create(emit, reshape(emit, picked, rows));
  Value none = splatLike(emit, negated, std::numeric_limits<double>::quiet_NaN());
  Value each = arith::SelectOp::create(emit, isClass, negated, none);
  each = arith::SelectOp::create(emit, counted, each, splatLike(emit, each, 0));
  return weighted(node, each, *loss, asked, scores.element());
}

} // namespace dtc::import
