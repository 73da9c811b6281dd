#include "AttentionBiases.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;

namespace dtc::kernels {

using graph::shapeOf;

/// A softmax gives nothing to a key of it beside any other. Halves of fp16 are always higher.
static constexpr double kLeastBias = -1e30;

/// The bias without the dimensions along which it repeats, all but that of keys; they have size 1.
static Value narrowed(graph::TensorBuilder &b, Value bias) {
  auto broadcast = bias.getDefiningOp<graph::BroadcastOp>();
  Value values = bias;
  SmallVector<int64_t> shape(shapeOf(bias));
  if (broadcast && llvm::is_contained(broadcast.getDims(), 3)) {
    values = broadcast.getInput();
    for (int64_t dim = 0; dim < 3; ++dim)
      if (!llvm::is_contained(broadcast.getDims(), dim))
        shape[dim] = 1;
  }
  if (!getElementTypeOrSelf(values).isF16())
    values = b.maximum(values, b.constantLike(values, kLeastBias));
  return b.reshape(values, shape);
}

/// One over the number of keys that each query [s] sees but for the bias.
static Value inverseKeys(graph::TensorBuilder &b, graph::AttentionGradOp op, Type type) {
  const int64_t queries = shapeOf(op.getQuery())[1], keys = shapeOf(op.getKey())[1];
  SmallVector<Attribute> inverse;
  for (int64_t query = 0; query < queries; ++query) {
    int64_t seen = op.getCausal() ? std::min(keys, query + 1 + keys - queries) : keys;
    if (std::optional<uint64_t> window = op.getWindow())
      seen = std::min(seen, static_cast<int64_t>(*window));
    inverse.push_back(b.builder.getFloatAttr(type, 1.0 / double(std::max<int64_t>(seen, 1))));
  }
  auto values = DenseElementsAttr::get(RankedTensorType::get({queries}, type), inverse);
  return arith::ConstantOp::create(b.builder, b.loc, values);
}

/// The gradient of the result, divided by the number of keys where all that a query sees are
/// hidden. The logarithm of n equal scores of -1e30 is -1e30 in rounding. So a library takes each
/// probability for 1 in place of 1 / n, and all gradients are products with both.
static Value dividedWhereHidden(graph::TensorBuilder &b, graph::AttentionGradOp op) {
  Value rows = op.getLse(); // [b,(g r),s]
  Value hidden = b.compare(arith::CmpFPredicate::OLT, rows, kLeastBias / 10);
  Value inverse = inverseKeys(b, op, getElementTypeOrSelf(rows));
  Value scale = b.selectOr(hidden, b.broadcast(inverse, {2}, shapeOf(rows)), 1.0);
  scale = b.broadcast(b.transpose(scale, {0, 2, 1}), {0, 1, 2}, shapeOf(op.getGrad()));
  Type type = getElementTypeOrSelf(op.getGrad());
  return b.convert(b.mul(b.widen(op.getGrad()), scale), type);
}

static void narrowBias(graph::AttentionOp op) {
  OpBuilder builder(op);
  graph::TensorBuilder b(builder, op.getLoc());
  op.getBiasMutable().assign(narrowed(b, op.getBias()));
}

static void narrowBias(graph::AttentionGradOp op) {
  OpBuilder builder(op);
  graph::TensorBuilder b(builder, op.getLoc());
  op.getBiasMutable().assign(narrowed(b, op.getBias()));
  op.getGradMutable().assign(dividedWhereHidden(b, op));
}

void narrowBiases(func::FuncOp func, const target::Target &target) {
  func.walk([&](Operation *op) {
    auto forward = dyn_cast<graph::AttentionOp>(op);
    auto backward = dyn_cast<graph::AttentionGradOp>(op);
    if (forward && forward.getBias() && target.staysWhole(op))
      narrowBias(forward);
    if (backward && backward.getBias() && target.staysWhole(op))
      narrowBias(backward);
  });
}

} // namespace dtc::kernels
