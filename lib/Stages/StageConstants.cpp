#include "StageConstants.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::stages {

StageConstants::StageConstants(func::FuncOp stage) : stage(stage) {
  for (unsigned i = 0; i < stage.getNumResults(); ++i)
    if (RoleAttr role = getResultRole(stage, i); role && role.getKind() == RoleKind::Buffer)
      replaced.insert(role);
}

bool StageConstants::isReplaced(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && replaced.contains(getArgRole(stage, argument.getArgNumber()));
}

bool StageConstants::contains(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return contains(value.getDefiningOp());
  RoleAttr role = getArgRole(stage, argument.getArgNumber());
  return role && role.getKind() == RoleKind::Buffer && !isReplaced(value);
}

bool StageConstants::contains(Operation *op) {
  if (auto found = known.find(op); found != known.end())
    return found->second;
  const bool isPlain =
      op->getNumOperands() == 0 || isElementwise(op) ||
      isa<BroadcastOp, ReshapeOp, SliceOp, dist::SliceOp, ConcatOp, TransposeOp>(op);
  const bool result = isPlain && isPure(op) && llvm::all_of(op->getOperands(), [&](Value operand) {
                        return contains(operand);
                      });
  known.try_emplace(op, result);
  return result;
}

} // namespace dtc::stages
