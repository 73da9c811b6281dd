#include "EvaluatedOps.h"

#include "dtc/Dialect/Graph/StepOps.h"

using namespace mlir;

namespace dtc::lower {

using graph::RoleKind;

static bool isAskedFor(graph::RoleAttr role) {
  return role.getKind() == RoleKind::Loss || role.getKind() == RoleKind::Output ||
         (role.getKind() == RoleKind::Count && role.getName() != graph::kNonFinite);
}

EvaluatedOps::EvaluatedOps(ModuleOp module, const HomeTable &homes)
    : homes(homes), wanted(homes.getHomes().size()) {
  findCalled(module);
  for (auto [index, home] : llvm::enumerate(homes.getHomes()))
    wanted[index] = isAskedFor(homeRole(home.role));
  while (!isComplete) {
    isComplete = true;
    for (func::FuncOp function : called)
      needResults(function);
  }
}

void EvaluatedOps::findCalled(ModuleOp module) {
  SmallVector<func::FuncOp> calls;
  size_t last = 0;
  for (auto schedule : module.getOps<exec::ScheduleOp>())
    for (auto call : schedule.getOps<exec::CallOp>())
      if (auto function = module.lookupSymbol<func::FuncOp>(call.getCallee())) {
        calls.push_back(function);
        if (graph::runsPerMicrobatch(function))
          last = calls.size();
      }
  llvm::SmallSetVector<func::FuncOp, 8> each(calls.begin(), calls.begin() + last);
  called.assign(each.begin(), each.end());
}

void EvaluatedOps::needResults(func::FuncOp function) {
  Operation *terminator = function.front().getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands()))
    if (wanted[homes.find(graph::getResultRole(function, i))])
      need(value);
  if (graph::getRuns(function).getPasses() != graph::Passes::Forward)
    return;
  for (Operation &op : function.front().without_terminator())
    if (isa<exec::SendOp, exec::ReceiveOp>(op) && needed.insert(&op).second)
      llvm::for_each(op.getOperands(), [&](Value sent) { need(sent); });
}

void EvaluatedOps::need(Value value) {
  SmallVector<Value> next = {value};
  while (!next.empty()) {
    Value each = next.pop_back_val();
    if (auto argument = dyn_cast<BlockArgument>(each)) {
      auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
      size_t home = homes.find(graph::getArgRole(function, argument.getArgNumber()));
      isComplete &= wanted[home];
      wanted.set(home);
    } else if (Operation *op = each.getDefiningOp(); needed.insert(op).second) {
      llvm::append_range(next, op->getOperands());
    }
  }
}

} // namespace dtc::lower
