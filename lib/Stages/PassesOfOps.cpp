#include "PassesOfOps.h"

#include "SharedParts.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::stages {

LogicalResult PassesOfOps::find(bool splitBackward) {
  findBackward();
  if (splitBackward)
    findWeightGrads();
  return placeResults();
}

StagePass PassesOfOps::passOf(Value value) const {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return passOf(value.getDefiningOp());
  auto runs =
      func::FuncOp(joint).getArgAttrOfType<RunsAttr>(argument.getArgNumber(), GraphDialect::kRuns);
  return runs && runs.getPasses() == Passes::InputGrad ? kInputGradPass : kForwardPass;
}

/// What is marked as such, and what depends on it. What partitioning made for the backward pass
/// alone belongs to it as well.
void PassesOfOps::findBackward() {
  for (Operation &op : joint.front().without_terminator()) {
    bool isBackward = op.hasAttr(GraphDialect::kBackward) ||
                      llvm::any_of(op.getOperands(),
                                   [&](Value operand) { return passOf(operand) != kForwardPass; });
    passes[&op] = isBackward ? kInputGradPass : kForwardPass;
  }
  DenseSet<Value> returned(terminator()->operand_begin(), terminator()->operand_end());
  for (Operation &op : llvm::reverse(joint.front().without_terminator())) {
    bool isForward = op.hasAttr(GraphDialect::kId) || op.use_empty() ||
                     llvm::any_of(op.getResults(), [&](Value v) { return returned.contains(v); });
    if (!isForward && llvm::all_of(op.getUsers(), [&](Operation *user) {
          return passes.lookup(user) != kForwardPass;
        }))
      passes[&op] = kInputGradPass;
  }
}

/// What is computed again. Of an op that partitioning took apart, the parts aren't marked: they
/// depend on such ops and on no gradient.
DenseSet<Operation *> PassesOfOps::findRecomputed() {
  DenseSet<Operation *> again;
  auto isAgain = [&](Value value) { return again.contains(value.getDefiningOp()); };
  for (Operation &op : joint.front().without_terminator()) {
    bool isPart = !op.hasAttr(GraphDialect::kBackward) && llvm::any_of(op.getOperands(), isAgain) &&
                  llvm::all_of(op.getOperands(), [&](Value operand) {
                    return isAgain(operand) || passOf(operand) == kForwardPass;
                  });
    if (isRecomputed(&op) || isPart)
      again.insert(&op);
  }
  return again;
}

/// Of the backward pass, all but what gradients of data depend on, and what is computed again
/// for either. What is gathered for that, or only waits for it, comes with what reads it.
void PassesOfOps::findWeightGrads() {
  const DenseSet<Operation *> again = findRecomputed();
  DenseSet<Value> needed;
  for (auto [i, value] : llvm::enumerate(terminator()->getOperands()))
    if (joint.getResultAttr(i, GraphDialect::kRuns)) // it leaves the stage
      needed.insert(value);
  for (Operation &op : llvm::reverse(joint.front().without_terminator())) {
    if (passes.lookup(&op) == kForwardPass)
      continue;
    auto mark = op.getAttrOfType<BackwardAttr>(GraphDialect::kBackward);
    bool isBrought = isa<BarrierOp, dist::AllGatherOp>(op);
    bool isEarly =
        (again.contains(&op) && !isBrought) || (mark && mark.getKind() == BackwardKind::InputGrad);
    bool isInputGrad =
        isEarly || llvm::any_of(op.getResults(), [&](Value v) { return needed.contains(v); });
    if (isInputGrad)
      needed.insert_range(op.getOperands());
    else
      passes[&op] = kWeightGradPass;
  }
}

/// Messages leave with their pass, all else with the pass that makes it.
LogicalResult PassesOfOps::placeResults() {
  for (auto [i, value] : llvm::enumerate(terminator()->getOperands())) {
    auto runs = joint.getResultAttrOfType<RunsAttr>(i, GraphDialect::kRuns);
    StagePass pass = passOf(value);
    if (runs)
      pass = runs.getPasses() == Passes::Forward ? kForwardPass : kInputGradPass;
    if (pass < passOf(value))
      return joint.emitOpError("sends what a later pass makes, result: ") << i;
    results[pass].push_back(i);
    // What the next stage of the same rank takes is kept already.
    RoleAttr role = getResultRole(joint, i);
    if (runs && role.getKind() == RoleKind::Kept && pass == passOf(value))
      named.try_emplace(value, role.getName().str());
  }
  return success();
}

} // namespace dtc::stages
