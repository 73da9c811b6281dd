// Gradients of ops that address elements by value.
#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;

namespace dtc::graph {

LogicalResult GatherOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                      ArrayRef<bool> needed,
                                      MutableArrayRef<Value> operandGrads) {
  if (!needed[0])
    return success();
  Value indices = getIndices();
  if (auto row = getPaddingRow()) { // scatter_add drops what lies outside
    TensorBuilder b(builder, getLoc());
    Value padding = b.compare(arith::CmpIPredicate::eq, indices, static_cast<int64_t>(*row));
    indices = b.select(padding, b.integer(indices.getType(), -1), indices);
  }
  operandGrads[0] = ScatterAddOp::create(builder, getLoc(), getTable().getType(), indices,
                                         resultGrads[0], getAxis());
  return success();
}

LogicalResult PickOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                    ArrayRef<bool> needed, MutableArrayRef<Value> operandGrads) {
  if (!needed[0])
    return success();
  TensorBuilder b(builder, getLoc());
  ArrayRef<int64_t> shape = shapeOf(getInput());
  int64_t last = shape.size() - 1;
  Value positions = b.iota(getElementTypeOrSelf(getIndices()), shape, last);
  Value picked = b.compare(arith::CmpIPredicate::eq, positions,
                           b.spread(getIndices(), shape, {last}));
  operandGrads[0] = b.selectOr(picked, b.spread(resultGrads[0], shape, {last}), 0.0);
  return success();
}

} // namespace dtc::graph
