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

template <typename Op> static void narrowBias(Op op) {
  OpBuilder builder(op);
  graph::TensorBuilder b(builder, op.getLoc());
  op.getBiasMutable().assign(narrowed(b, op.getBias()));
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
