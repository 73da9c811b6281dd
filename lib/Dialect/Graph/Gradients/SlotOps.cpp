// Gradients of the ops of mixtures whose rows have slots.
#include "dtc/Dialect/Graph/SlotOps.h"

using namespace mlir;

namespace dtc::graph {

/// No two rows have one slot, so that each takes back what its slot has.
LogicalResult ToSlotsOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                       ArrayRef<bool> needed, MutableArrayRef<Value> operandGrads) {
  if (needed[0])
    operandGrads[0] = FromSlotsOp::create(builder, getLoc(), getInput().getType(), resultGrads[0],
                                          getSlots(), getApartAttr(), getTileAttr());
  return success();
}

LogicalResult FromSlotsOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                         ArrayRef<bool> needed,
                                         MutableArrayRef<Value> operandGrads) {
  if (needed[0])
    operandGrads[0] = ToSlotsOp::create(builder, getLoc(), getInput().getType(), resultGrads[0],
                                        getSlots(), getApartAttr(), getTileAttr());
  return success();
}

} // namespace dtc::graph
