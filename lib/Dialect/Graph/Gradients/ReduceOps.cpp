// Gradients of reductions, sums and contractions.
#include "ContractGradients.h"

using namespace mlir;

namespace dtc::graph {

using Predicate = arith::CmpFPredicate;

/// The gradient of a maximum or minimum is divided evenly among the elements
/// that attain it, as in PyTorch's amax.
static Value extremumGrad(TensorBuilder &b, ReduceOp op, Value grad) {
  Value x = b.widen(op.getInput());
  ArrayRef<int64_t> shape = shapeOf(x), dims = op.getDims();
  Value attains = b.convert(
      b.compare(Predicate::OEQ, x, b.spread(b.widen(op.getResult()), shape, dims)),
      getElementTypeOrSelf(x));
  Value share = b.div(grad, b.sum(attains, dims));
  return b.mul(attains, b.spread(share, shape, dims));
}

/// The product of the others: total / x, but right also where x is zero.
static Value productGrad(TensorBuilder &b, ReduceOp op, Value grad) {
  Value x = b.widen(op.getInput());
  ArrayRef<int64_t> shape = shapeOf(x), dims = op.getDims();
  Value isZero = b.compare(Predicate::OEQ, x, 0.0);
  Value zeros = b.sum(b.convert(isZero, getElementTypeOrSelf(x)), dims);
  Value nonzero = b.selectOr(isZero, 1.0, x);
  Value total = b.mul(b.reduce(ReduceKind::Prod, nonzero, dims), grad);
  Value withoutZero = b.selectOr(b.compare(Predicate::OEQ, zeros, 0.0), total, 0.0);
  Value oneZero = b.selectOr(b.compare(Predicate::OEQ, zeros, 1.0), total, 0.0);
  return b.select(isZero, b.spread(oneZero, shape, dims),
                  b.div(b.spread(withoutZero, shape, dims), nonzero));
}

LogicalResult ReduceOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                      ArrayRef<bool>, MutableArrayRef<Value> operandGrads) {
  TensorBuilder b(builder, getLoc());
  if (getKind() == ReduceKind::Sum) {
    operandGrads[0] = b.spread(resultGrads[0], shapeOf(getInput()), getDims());
    return success();
  }
  Value grad = b.widen(resultGrads[0]);
  grad = getKind() == ReduceKind::Prod ? productGrad(b, *this, grad)
                                       : extremumGrad(b, *this, grad);
  operandGrads[0] = b.convert(grad, getElementTypeOrSelf(getInput()));
  return success();
}

LogicalResult CumSumOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                      ArrayRef<bool>, MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = CumSumOp::create(builder, getLoc(), getInput().getType(), resultGrads[0],
                                     getDim(), getExclusive(), !getReverse());
  return success();
}

LogicalResult SumOp::buildGradient(OpBuilder &, ArrayRef<Value> resultGrads,
                                   ArrayRef<bool> needed, MutableArrayRef<Value> operandGrads) {
  for (auto [operandGrad, isNeeded] : llvm::zip_equal(operandGrads, needed))
    if (isNeeded)
      operandGrad = resultGrads[0];
  return success();
}

LogicalResult ContractOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                        ArrayRef<bool> needed,
                                        MutableArrayRef<Value> operandGrads) {
  Value grad = resultGrads[0];
  auto contract = [&](TensorBuilder &b, Value other, ArrayRef<int64_t> otherIndices, Value,
                      ArrayRef<int64_t> indices) {
    return b.contract(grad, getResultIndices(), other, otherIndices, indices,
                      getElementTypeOrSelf(grad));
  };
  buildContractGradients(*this, builder, grad, needed, operandGrads, contract);
  return success();
}

} // namespace dtc::graph
