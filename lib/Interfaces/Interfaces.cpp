#include "dtc/Interfaces/Interfaces.h"

using namespace mlir;

namespace dtc {

SmallVector<Value> cloneLocal(Operation *op, OpBuilder &builder, ValueRange operands,
                              TypeRange resultTypes) {
  // The attributes as they are: a list of them would be made a dictionary again.
  Operation *local = Operation::create(
      op->getLoc(), op->getName(), resultTypes, operands, op->getDiscardableAttrDictionary(),
      op->getPropertiesStorage(), BlockRange(), /*numRegions=*/0);
  return llvm::to_vector_of<Value>(builder.insert(local)->getResults());
}

} // namespace dtc

#include "dtc/Interfaces/CostInterface.cpp.inc"
#include "dtc/Interfaces/DifferentiableInterface.cpp.inc"
#include "dtc/Interfaces/KernelInterface.cpp.inc"
#include "dtc/Interfaces/PrecisionInterface.cpp.inc"
#include "dtc/Interfaces/ShardingRuleInterface.cpp.inc"
