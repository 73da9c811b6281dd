// Gradients of the ops of mixtures of experts.
#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;

namespace dtc::graph {

LogicalResult DispatchOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                        ArrayRef<bool> needed,
                                        MutableArrayRef<Value> operandGrads) {
  if (needed[0])
    operandGrads[0] =
        CombineOp::create(builder, getLoc(), resultGrads[0], getChoices(), getExperts());
  return success();
}

LogicalResult CombineOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                       ArrayRef<bool> needed,
                                       MutableArrayRef<Value> operandGrads) {
  if (needed[0])
    operandGrads[0] =
        DispatchOp::create(builder, getLoc(), resultGrads[0], getChoices(), getExperts());
  return success();
}

/// As of a contraction with a third factor, 1 where a row chose the expert.
LogicalResult GroupedContractOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                               ArrayRef<bool> needed,
                                               MutableArrayRef<Value> operandGrads) {
  TensorBuilder b(builder, getLoc());
  Value grad = resultGrads[0];
  Type wide = getElementTypeOrSelf(grad);
  auto build = [&](Value other, ArrayRef<int64_t> otherIndices, Value operand,
                   ArrayRef<int64_t> indices) {
    auto type = cast<RankedTensorType>(operand.getType());
    Value result = GroupedContractOp::create(
        builder, getLoc(), type.clone(wide), grad, b.convert(other, wide), getChoices(),
        getResultIndices(), otherIndices, indices, getChoiceIndices(), getExperts());
    return b.convert(result, type.getElementType());
  };
  if (needed[0])
    operandGrads[0] = build(getRhs(), getRhsIndices(), getLhs(), getLhsIndices());
  if (needed[1])
    operandGrads[1] = build(getLhs(), getLhsIndices(), getRhs(), getRhsIndices());
  return success();
}

} // namespace dtc::graph
