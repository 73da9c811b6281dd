// Softmax cross entropy with integer targets.
#include "Softmax.h"

#include <limits>

using namespace mlir;

namespace dtc::graph {

using Predicate = arith::CmpIPredicate;

FailureOr<SmallVector<Value>> CrossEntropyOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  Value logits = getLogits(), target = getTarget();
  int64_t last = shapeOf(logits).size() - 1;
  Value lse = logTotal(b, softmaxRows(b, b.widen(logits), last));
  Value picked = b.widen(PickOp::create(builder, getLoc(),
                                        cast<RankedTensorType>(lse.getType())
                                            .clone(getElementTypeOrSelf(logits)),
                                        logits, target));
  // A target that is no class must not pass for a loss: the step reports it as not finite.
  Value inside = b.compare(Predicate::ult, target, shapeOf(logits)[last]);
  Value loss = b.selectOr(inside, b.sub(lse, picked), std::numeric_limits<double>::quiet_NaN());
  Value ignored = b.compare(Predicate::eq, target, static_cast<int64_t>(getIgnoreIndex()));
  return SmallVector<Value>{b.selectOr(ignored, 0.0, loss), lse};
}

FailureOr<SmallVector<Value>> CrossEntropyGradOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  Value target = getTarget();
  ArrayRef<int64_t> shape = shapeOf(getLogits());
  int64_t last = shape.size() - 1;
  Value lse = getLse();
  Value p = b.unary<math::ExpOp>(b.sub(b.widen(getLogits()), b.spread(lse, shape, {last})));
  Value classes = b.iota(getElementTypeOrSelf(target), shape, last);
  Value isTarget = b.compare(Predicate::eq, classes, b.spread(target, shape, {last}));
  Value difference = b.select(isTarget, b.offset(p, -1.0), p);
  Value ignored = b.compare(Predicate::eq, target, static_cast<int64_t>(getIgnoreIndex()));
  Value rowGrad = b.selectOr(ignored, 0.0, getGrad());
  Value result = b.mul(difference, b.spread(rowGrad, shape, {last}));
  return SmallVector<Value>{b.convert(result, getElementTypeOrSelf(getType()))};
}

} // namespace dtc::graph
