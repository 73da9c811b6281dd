#include "AttentionBiases.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;

namespace dtc::kernels {

template <typename Op> static void withoutSamples(Op op) {
  auto broadcast = op.getBias().template getDefiningOp<graph::BroadcastOp>();
  if (!broadcast || llvm::is_contained(broadcast.getDims(), 0))
    return;
  OpBuilder builder(op);
  graph::TensorBuilder b(builder, op.getLoc());
  SmallVector<int64_t> shape(graph::shapeOf(op.getBias()));
  shape[0] = 1;
  op.getBiasMutable().assign(b.broadcast(broadcast.getInput(), broadcast.getDims(), shape));
}

void shareBiases(func::FuncOp func, const target::Target &target) {
  func.walk([&](Operation *op) {
    auto forward = dyn_cast<graph::AttentionOp>(op);
    auto backward = dyn_cast<graph::AttentionGradOp>(op);
    if (forward && forward.getBias() && target.staysWhole(op))
      withoutSamples(forward);
    if (backward && backward.getBias() && target.staysWhole(op))
      withoutSamples(backward);
  });
}

} // namespace dtc::kernels
