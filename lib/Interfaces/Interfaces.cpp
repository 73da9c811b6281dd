#include "dtc/Interfaces/Interfaces.h"

using namespace mlir;

namespace dtc {

SmallVector<Value> cloneLocal(Operation *op, OpBuilder &builder, ValueRange operands,
                              TypeRange resultTypes) {
  OperationState state(op->getLoc(), op->getName(), operands, resultTypes, op->getAttrs());
  return llvm::to_vector_of<Value>(builder.create(state)->getResults());
}

} // namespace dtc

#include "dtc/Interfaces/CostInterface.cpp.inc"
#include "dtc/Interfaces/DifferentiableInterface.cpp.inc"
#include "dtc/Interfaces/ShardingRuleInterface.cpp.inc"
