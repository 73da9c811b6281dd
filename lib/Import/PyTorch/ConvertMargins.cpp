// Losses that keep apart by a margin, and the distances that they are of.
#include "Compared.h"

#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Build/Reduction.h"
#include "dtc/Import/Build/StopGradient.h"
#include "dtc/Raise/Emit.h"

using namespace mlir;

namespace dtc::import {

FailureOr<Compared> compared(AtenConverter &node, ArrayRef<StringRef> names) {
  SmallVector<std::optional<Tensor>> tensors;
  Type type;
  FailureOr<Shape> shape = Shape{};
  for (StringRef name : names) {
    auto tensor = node.optionalTensor(name);
    if (failed(tensor))
      return failure();
    tensors.push_back(*tensor);
    if (!*tensor)
      continue;
    const Type next = floatFor((*tensor)->element());
    type =
        type ? promoted({**tensor, false}, {Tensor(HostTensor::splat(type, {1}, 0)), false}) : next;
    shape = broadcastShapes({*shape, (*tensor)->shape()});
    if (failed(shape))
      return LogicalResult(node.error() << "operands of shapes that do not broadcast");
  }
  if (failed(node.checkShape(*shape)))
    return failure();
  Compared result = {graph::TensorBuilder(node.emit, node.emit.getLoc()), {}};
  for (const std::optional<Tensor> &tensor : tensors) {
    auto same = tensor ? cast(node, *tensor, type) : FailureOr<Tensor>(Tensor());
    if (failed(same))
      return failure();
    result.of.push_back(tensor ? node.valueAs(*same, *shape) : Value());
  }
  return result;
}

FailureOr<LossReduction> reductionOf(AtenConverter &node) {
  auto number = node.integer("reduction", 1);
  if (failed(number))
    return failure();
  if (*number < 0 || *number > 2)
    return LogicalResult(node.error() << "has an unknown reduction: " << *number);
  return *number == 0   ? LossReduction::None
         : *number == 1 ? LossReduction::Mean
                        : LossReduction::Sum;
}

LogicalResult defineReduced(AtenConverter &node, Value elements) {
  auto reduction = reductionOf(node);
  const int64_t rank = tensorType(elements).getRank();
  if (failed(reduction))
    return failure();
  if (*reduction == LossReduction::None || rank == 0)
    return node.define(elements);
  return node.define(
      reduceTensor(node, *reduction == LossReduction::Mean ? "ReduceMean" : "ReduceSum",
                   Tensor(elements), llvm::to_vector(llvm::seq<int64_t>(rank)), false));
}

Value softplus(graph::TensorBuilder &b, Value x) {
  return graph::ActivationOp::create(b.builder, b.loc, x.getType(), graph::Activation::Softplus, x);
}

/// x where it isn't below 0. No gradient passes at 0.
static Value positive(graph::TensorBuilder &b, Value x) {
  return b.selectOr(b.compare(arith::CmpFPredicate::OLE, x, 0.0), 0.0, x);
}

/// x of what is alike (1), and what x lacks to the margin of what isn't (-1).
static LogicalResult convertHinge(AtenConverter &node) {
  auto pair = compared(node, {"self", "target"});
  auto margin = node.number("margin", 1);
  if (failed(pair) || failed(margin))
    return failure();
  auto [b, of] = *pair;
  using Predicate = arith::CmpFPredicate;
  Value apart = positive(b, b.offset(b.negate(of[0]), *margin));
  return defineReduced(node, b.add(b.selectOr(b.compare(Predicate::OEQ, of[1], 1), 0.0, apart),
                                   b.selectOr(b.compare(Predicate::OEQ, of[1], -1), 0.0, of[0])));
}

static LogicalResult convertRanking(AtenConverter &node) {
  auto all = compared(node, {"input1", "input2", "target"});
  auto margin = node.number("margin", 0);
  if (failed(all) || failed(margin))
    return failure();
  auto [b, of] = *all;
  Value lead = b.mul(of[2], b.sub(of[0], of[1]));
  return defineReduced(node, positive(b, b.offset(b.negate(lead), *margin)));
}

static LogicalResult convertSoftMargin(AtenConverter &node) {
  auto pair = compared(node, {"self", "target"});
  if (failed(pair))
    return failure();
  auto [b, of] = *pair;
  return defineReduced(node, softplus(b, b.negate(b.mul(of[0], of[1]))));
}

/// The cosine between rows along `dim`; lengths are at least `eps`, by a step without gradient.
static LogicalResult convertCosine(AtenConverter &node) {
  auto pair = compared(node, {"x1", "x2"});
  auto epsilon = node.number("eps", 1e-8);
  if (failed(pair) || failed(epsilon))
    return failure();
  auto [b, of] = *pair;
  const Shape shape = Shape(tensorType(of[0]).getShape());
  auto dim = node.axisOf("dim", shape.size(), 1);
  if (failed(dim))
    return failure();
  for (Value &x : of) {
    auto length = lengths(node, Tensor(x), 2, {*dim}, false);
    if (failed(length))
      return failure();
    Value is = node.value(*length);
    Value lack = positive(b, b.offset(b.negate(is), *epsilon));
    is = b.add(is, node.value(stopGradient(node, Tensor(lack))));
    x = b.div(x, b.spread(is, shape, {*dim}));
  }
  return node.define(b.sum(b.mul(of[0], of[1]), {*dim}));
}

/// 1 - cosine of what is alike (1), and what the cosine has above the margin of what isn't (-1).
static LogicalResult convertCosineEmbedding(AtenConverter &node) {
  auto pair = compared(node, {"input1", "input2"});
  auto target = node.tensor("target");
  auto margin = node.number("margin", 0);
  if (failed(pair) || failed(target) || failed(margin))
    return failure();
  auto [b, of] = *pair;
  const Shape shape = Shape(tensorType(of[0]).getShape());
  Shape rows = shape;
  const int64_t dim = target->rank();
  if (dim > 1 || int64_t(shape.size()) != dim + 1 ||
      (rows.erase(rows.begin() + dim), target->shape() != rows))
    return node.error() << "takes rows and a target for each";
  auto along = [&](int i, int j) { return b.sum(b.mul(of[i], of[j]), {dim}); };
  Value size = b.mul(b.offset(along(0, 0), 1e-12), b.offset(along(1, 1), 1e-12));
  Value cosine = b.div(along(0, 1), b.unary<math::SqrtOp>(size));
  auto sign = cast(node, *target, elementOf(cosine));
  if (failed(sign))
    return failure();
  auto where = [&](double is, Value loss) {
    return b.selectOr(b.compare(arith::CmpFPredicate::OEQ, node.value(*sign), is), loss, 0.0);
  };
  return defineReduced(node, b.add(where(1, b.offset(b.negate(cosine), 1)),
                                   where(-1, positive(b, b.offset(cosine, -*margin)))));
}

/// |a - b + eps| along the last dimension.
static FailureOr<Tensor> distance(AtenConverter &node, const Tensor &a, const Tensor &b,
                                  bool keep) {
  auto order = node.number("p", 2), epsilon = node.number("eps", 1e-6);
  auto apart = binary(node, "Sub", a, b);
  if (failed(order) || failed(epsilon) || failed(apart))
    return failure();
  if (apart->rank() == 0)
    return LogicalResult(node.error() << "takes rows");
  auto shifted =
      binary(node, "Add", *apart, Tensor(HostTensor::splat(apart->element(), {}, *epsilon)));
  return failed(shifted) ? shifted : lengths(node, *shifted, *order, {shifted->rank() - 1}, keep);
}

static LogicalResult convertPairwiseDistance(AtenConverter &node) {
  auto pair = compared(node, {"x1", "x2"});
  auto keep = node.boolean("keepdim", false);
  return failed(pair) || failed(keep)
             ? failure()
             : node.define(distance(node, Tensor(pair->of[0]), Tensor(pair->of[1]), *keep));
}

static LogicalResult convertTriplet(AtenConverter &node) {
  auto all = compared(node, {"anchor", "positive", "negative"});
  auto margin = node.number("margin", 1);
  auto swap = node.boolean("swap", false);
  if (failed(all) || failed(margin) || failed(swap))
    return failure();
  auto [b, of] = *all;
  auto near = distance(node, Tensor(of[0]), Tensor(of[1]), false);
  auto far = failed(near) ? near : distance(node, Tensor(of[0]), Tensor(of[2]), false);
  if (*swap && succeeded(far)) {
    auto other = distance(node, Tensor(of[1]), Tensor(of[2]), false);
    far = failed(other) ? other : binary(node, "Min", *far, *other);
  }
  if (failed(far))
    return failure();
  Value lead = b.sub(node.value(*near), node.value(*far));
  return defineReduced(node, positive(b, b.offset(lead, *margin)));
}

/// What the scores [n, classes] of other classes lack to the margin below that of the target.
static LogicalResult convertClassMargin(AtenConverter &node) {
  auto scores = node.tensor("self"), target = node.tensor("target");
  auto weights = node.optionalTensor("weight");
  auto power = node.number("p", 1), margin = node.number("margin", 1);
  if (failed(scores) || failed(target) || failed(weights) || failed(power) || failed(margin))
    return failure();
  const Shape shape = scores->shape();
  if (shape.size() != 2 || target->shape() != Shape{shape[0]} ||
      !isa<FloatType>(scores->element()) || !target->element().isInteger(64) ||
      (*power != 1 && *power != 2))
    return node.error() << "takes scores [n, classes], targets [n] and the power 1 or 2";
  graph::TensorBuilder b(node.emit, node.emit.getLoc());
  Value x = node.value(*scores);
  Value isTarget = b.compare(arith::CmpIPredicate::eq, b.iota(target->element(), shape, 1),
                             b.spread(node.value(*target), shape, {1}));
  auto ofTarget = [&](Value each) { return b.sum(b.selectOr(isTarget, each, 0.0), {1}); };
  // A target that is no class gives NaN, as 0 / 0.
  Value own = b.div(ofTarget(x), ofTarget(b.constantLike(x, 1)));
  Value lack = positive(b, b.offset(b.sub(x, b.spread(own, shape, {1})), *margin));
  lack = b.selectOr(isTarget, 0.0, *power == 2 ? b.square(lack) : lack);
  Value rows = b.scale(b.sum(lack, {1}), 1.0 / double(shape[1]));
  if (*weights) {
    auto same = cast(node, **weights, scores->element());
    if (failed(same) || same->shape() != Shape{shape[1]})
      return failed(same) ? failure() : node.error() << "takes a weight for each class";
    rows = b.mul(rows, ofTarget(node.valueAs(*same, shape)));
  }
  return defineReduced(node, rows);
}

void addMargins(AtenTable &table) {
  table["aten.hinge_embedding_loss"] = convertHinge;
  table["aten.margin_ranking_loss"] = convertRanking;
  table["aten.soft_margin_loss"] = convertSoftMargin;
  table["aten.cosine_similarity"] = convertCosine;
  table["aten.cosine_embedding_loss"] = convertCosineEmbedding;
  table["aten.pairwise_distance"] = convertPairwiseDistance;
  table["aten.multi_margin_loss"] = convertClassMargin;
  table["aten.triplet_margin_loss"] = convertTriplet;
}

} // namespace dtc::import
