// Gradients of convolution and pooling.
#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;

namespace dtc::graph {

LogicalResult ConvOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                    ArrayRef<bool> needed, MutableArrayRef<Value> operandGrads) {
  Value grad = resultGrads[0];
  if (needed[0])
    operandGrads[0] = ConvInputGradOp::create(builder, getLoc(), getInput().getType(), grad,
                                              getWeight(), getGroups(), getStrides(),
                                              getPadLow(), getPadHigh(), getDilations());
  if (needed[1])
    operandGrads[1] = ConvWeightGradOp::create(builder, getLoc(), getWeight().getType(),
                                               getInput(), grad, getGroups(), getStrides(),
                                               getPadLow(), getPadHigh(), getDilations());
  return success();
}

LogicalResult MaxPoolOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                       ArrayRef<bool>, MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = MaxPoolGradOp::create(builder, getLoc(), getInput().getType(), getInput(),
                                          resultGrads[0], getKernel(), getStrides(), getPadLow(),
                                          getPadHigh(), getDilations());
  return success();
}

} // namespace dtc::graph
