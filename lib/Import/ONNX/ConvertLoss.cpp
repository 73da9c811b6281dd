// Losses that a model computes itself: trained with --loss output:NAME.
#include "GraphBuilder.h"

#include <limits>

using namespace mlir;

namespace dtc::import {

namespace {

/// The inputs of a loss by class, its classes brought to the end: scores[n, ..., c] and
/// target[n, ...], the latter in i64.
struct ClassLoss {
  Value scores, target;
  /// No class where the node doesn't say what is ignored.
  int64_t ignore;

  RankedTensorType rowType(Type element) const {
    return tensorType(target).clone(element);
  }
};

} // namespace

static FailureOr<ClassLoss> readInputs(NodeConverter &node) {
  Shape scores = node.input(0).shape(), target = node.input(1).shape();
  if (node.has(2))
    return LogicalResult(node.error() << "is supported without weights of classes only");
  if (node.hasOutput(1))
    return LogicalResult(node.error() << "is supported with one result only");
  Shape rows = scores, toLast;
  if (scores.size() >= 2)
    rows.erase(rows.begin() + 1);
  if (scores.size() < 2 || target != rows)
    return LogicalResult(node.error() << "takes scores [n, classes, ...] and targets [n, ...]");
  for (int64_t i = 0; i < static_cast<int64_t>(scores.size()); ++i)
    if (i != 1)
      toLast.push_back(i);
  toLast.push_back(1);
  ClassLoss loss;
  loss.scores = transpose(node.emit, node.value(0), toLast);
  loss.target = castTo(node.emit, node.value(1), node.emit.getI64Type());
  loss.ignore = node.attrInt("ignore_index", std::numeric_limits<int64_t>::min());
  return loss;
}

/// Of the losses by row what the node is asked for; `counted` are the rows that aren't ignored.
static LogicalResult defineReduced(NodeConverter &node, Value rows, Value counted) {
  Emitter &emit = node.emit;
  const std::string reduction = node.attrString("reduction", "mean");
  const Type element = node.input(0).element();
  Shape all;
  for (int64_t i = 0; i < tensorType(rows).getRank(); ++i)
    all.push_back(i);
  if (reduction == "none")
    return node.define(castTo(emit, rows, element));
  if (reduction != "mean" && reduction != "sum")
    return node.error() << "has an unknown reduction: " << reduction;
  Value result = reduce(emit, graph::ReduceKind::Sum, rows, all);
  if (reduction == "mean") {
    Value count = reduce(emit, graph::ReduceKind::Sum, castTo(emit, counted, elementOf(rows)), all);
    result = arith::DivFOp::create(emit, result, count);
  }
  return node.define(castTo(emit, result, element));
}

static Value isCounted(Emitter &emit, const ClassLoss &loss) {
  auto type = tensorType(loss.target);
  auto ignored = arith::ConstantOp::create(
      emit, DenseElementsAttr::get(type, APInt(64, static_cast<uint64_t>(loss.ignore))));
  return arith::CmpIOp::create(emit, arith::CmpIPredicate::ne, loss.target, ignored);
}

static LogicalResult convertCrossEntropy(NodeConverter &node) {
  FailureOr<ClassLoss> loss = readInputs(node);
  if (failed(loss))
    return failure();
  Emitter &emit = node.emit;
  Type statistic = elementOf(loss->scores).isF64() ? Type(emit.getF64Type()) : emit.getF32Type();
  RankedTensorType rows = loss->rowType(statistic);
  auto made = graph::CrossEntropyOp::create(emit, rows, rows, loss->scores, loss->target,
                                            loss->ignore);
  return defineReduced(node, made.getLoss(), isCounted(emit, *loss));
}

/// Of log-probabilities. A target that is no class gives NaN, as in the cross entropy.
static LogicalResult convertLogLikelihood(NodeConverter &node) {
  FailureOr<ClassLoss> loss = readInputs(node);
  if (failed(loss))
    return failure();
  Emitter &emit = node.emit;
  Shape rows = Shape(tensorType(loss->target).getShape()), single = rows;
  single.push_back(1);
  auto classes = arith::ConstantOp::create(
      emit, DenseElementsAttr::get(tensorType(loss->target),
                                   APInt(64, tensorType(loss->scores).getShape().back())));
  Value isClass =
      arith::CmpIOp::create(emit, arith::CmpIPredicate::ult, loss->target, classes);
  Value counted = isCounted(emit, *loss);
  Value index =
      arith::SelectOp::create(emit, isClass, loss->target, splatLike(emit, loss->target, 0));
  Value picked = pickEach(emit, loss->scores, reshape(emit, index, single));
  Value negated = arith::NegFOp::create(emit, reshape(emit, picked, rows));
  Value none = splatLike(emit, negated, std::numeric_limits<double>::quiet_NaN());
  Value each = arith::SelectOp::create(emit, isClass, negated, none);
  each = arith::SelectOp::create(emit, counted, each, splatLike(emit, each, 0));
  return defineReduced(node, each, counted);
}

void addLossConverters(ConverterTable &table) {
  table["SoftmaxCrossEntropyLoss"] = convertCrossEntropy;
  table["NegativeLogLikelihoodLoss"] = convertLogLikelihood;
}

} // namespace dtc::import
