// Gradients of ops that move elements.
#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;

namespace dtc::graph {

LogicalResult IotaOp::buildGradient(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>,
                                    MutableArrayRef<Value>) {
  return success();
}

LogicalResult BroadcastOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                         ArrayRef<bool>, MutableArrayRef<Value> operandGrads) {
  TensorBuilder b(builder, getLoc());
  operandGrads[0] =
      b.sum(resultGrads[0], otherDims(shapeOf(getResult()).size(), getDims()));
  return success();
}

LogicalResult ReshapeOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                       ArrayRef<bool>, MutableArrayRef<Value> operandGrads) {
  TensorBuilder b(builder, getLoc());
  operandGrads[0] = b.reshape(resultGrads[0], shapeOf(getInput()));
  return success();
}

LogicalResult BarrierOp::buildGradient(OpBuilder &, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                                       MutableArrayRef<Value> operandGrads) {
  operandGrads[0] = resultGrads[0];
  return success();
}

LogicalResult TransposeOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                         ArrayRef<bool>, MutableArrayRef<Value> operandGrads) {
  SmallVector<int64_t> inverse(getPerm().size());
  for (auto [i, dim] : llvm::enumerate(getPerm()))
    inverse[dim] = i;
  TensorBuilder b(builder, getLoc());
  operandGrads[0] = b.transpose(resultGrads[0], inverse);
  return success();
}

LogicalResult SliceOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                     ArrayRef<bool>, MutableArrayRef<Value> operandGrads) {
  SmallVector<int64_t> interior;
  for (int64_t stride : getStrides())
    interior.push_back(stride - 1);
  // Where a single element is read the stride says nothing, and could be large.
  for (auto [i, size] : llvm::enumerate(shapeOf(getResult())))
    if (size <= 1)
      interior[i] = 0;
  operandGrads[0] = PadOp::create(builder, getLoc(), getInput().getType(), resultGrads[0],
                                  getOffsets(), interior, APFloat(0.0));
  return success();
}

LogicalResult PadOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                   ArrayRef<bool>, MutableArrayRef<Value> operandGrads) {
  SmallVector<int64_t> strides;
  for (int64_t interior : getInterior())
    strides.push_back(interior + 1);
  operandGrads[0] = SliceOp::create(builder, getLoc(), getInput().getType(), resultGrads[0],
                                    getLow(), strides);
  return success();
}

LogicalResult ConcatOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                      ArrayRef<bool> needed,
                                      MutableArrayRef<Value> operandGrads) {
  SmallVector<int64_t> offsets(shapeOf(getResult()).size(), 0);
  SmallVector<int64_t> strides(offsets.size(), 1);
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    if (needed[i])
      operandGrads[i] = SliceOp::create(builder, getLoc(), input.getType(), resultGrads[0],
                                        offsets, strides);
    offsets[getDim()] += shapeOf(input)[getDim()];
  }
  return success();
}

} // namespace dtc::graph
