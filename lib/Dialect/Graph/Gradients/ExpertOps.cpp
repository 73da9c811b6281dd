// Gradients of the ops of mixtures of experts.
#include "ContractGradients.h"

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
  Value grad = resultGrads[0];
  auto contract = [&](TensorBuilder &, Value other, ArrayRef<int64_t> otherIndices, Value operand,
                      ArrayRef<int64_t> indices) -> Value {
    auto type = cast<RankedTensorType>(operand.getType()).clone(getElementTypeOrSelf(grad));
    return GroupedContractOp::create(builder, getLoc(), type, grad, other, getChoices(),
                                     getResultIndices(), otherIndices, indices,
                                     getChoiceIndices(), getExperts());
  };
  buildContractGradients(*this, builder, grad, needed, operandGrads, contract);
  return success();
}

} // namespace dtc::graph
