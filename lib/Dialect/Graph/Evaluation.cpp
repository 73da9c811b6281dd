#include "dtc/Dialect/Graph/Evaluation.h"

using namespace mlir;

namespace dtc::graph {

Value chooseByEvaluation(TensorBuilder &b, Value evaluation, Value evaluated, Value trained) {
  Value spread = b.broadcast(evaluation, {}, shapeOf(trained));
  Value evaluates = b.compare(arith::CmpFPredicate::UNE, spread, 0.0);
  return b.select(evaluates, evaluated, trained);
}

static bool isEvaluation(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto function = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : nullptr;
  RoleAttr role = function ? getArgRole(function, argument.getArgNumber()) : nullptr;
  return role && role.getScalar() == ScalarKind::Evaluation;
}

Value trainedChoice(Operation *op) {
  auto select = dyn_cast_or_null<arith::SelectOp>(op);
  if (!select)
    return nullptr;
  Value decides = select.getCondition();
  for (Operation *maker = decides.getDefiningOp();
       isa_and_present<arith::CmpFOp, BroadcastOp, ReshapeOp>(maker);
       maker = decides.getDefiningOp())
    decides = maker->getOperand(0);
  return isEvaluation(decides) ? select.getFalseValue() : nullptr;
}

} // namespace dtc::graph
