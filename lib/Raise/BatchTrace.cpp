#include "BatchTrace.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace dtc::raise {

LogicalResult BatchTrace::start(ArrayRef<std::string> whole) {
  for (BlockArgument argument : func.getArguments()) {
    auto role = graph::getArgRole(func, argument.getArgNumber());
    auto shape = graph::shapeOf(argument);
    if (!role || role.getKind() != graph::RoleKind::Input || shape.empty() ||
        llvm::is_contained(whole, role.getName()))
      continue;
    if (old != 0 && shape[0] != old)
      return func.emitError() << "inputs have different batch sizes: " << old << " and "
                              << shape[0];
    old = shape[0];
    places[argument] = {0, 1, 1};
  }
  return success();
}

LogicalResult BatchTrace::refuse(Location at, const Twine &why) const {
  if (advice)
    return emitError(at) << purpose << ": " << why << *advice;
  return emitError(at) << purpose << ": " << why << "; --global-batch " << old
                       << " without a micro_batch keeps the file's, and an export with another "
                          "batch has another";
}

/// Notes that `value` has the batch at `at`.
LogicalResult BatchTrace::place(Value value, const BatchPlace &at) {
  auto [entry, fresh] = places.try_emplace(value, at);
  changed |= fresh;
  if (entry->second == at)
    return success();
  return refuse(value.getLoc(), "dimensions " + Twine(entry->second.dim) + " and " + Twine(at.dim) +
                                    " of one value would both hold it");
}

LogicalResult BatchTrace::propagate() {
  SmallVector<Operation *> ops;
  func.getBody().walk([&](Operation *op) {
    if (!isa<func::FuncOp, func::ReturnOp>(op))
      ops.push_back(op);
  });
  return visitUntilSettled(ops, changed, /*backwards=*/old > 1,
                           [&](Operation *op) { return visit(op); });
}

LogicalResult BatchTrace::visitReshape(graph::ReshapeOp op) {
  auto move = [&](Value from, Value to) -> LogicalResult {
    auto at = placeIn(from);
    if (!at)
      return success();
    auto moved = moveThroughReshape(*at, graph::shapeOf(from), graph::shapeOf(to), old);
    if (!moved)
      return end(op->getLoc(), "the reshape takes it apart");
    return place(to, *moved);
  };
  if (failed(move(op.getInput(), op.getResult())))
    return failure();
  return old == 1 ? success() : move(op.getResult(), op.getInput());
}

LogicalResult BatchTrace::visit(Operation *op) {
  if (auto reshape = dyn_cast<graph::ReshapeOp>(op))
    return visitReshape(reshape);
  if (op->hasTrait<OpTrait::ConstantLike>())
    return success(); // who retypes them checks them
  SmallVector<Value> tensors(op->getOperands());
  tensors.append(op->result_begin(), op->result_end());
  if (llvm::none_of(tensors, [&](Value value) { return places.contains(value); }))
    return success();
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled)
    return end(op->getLoc(), "it has no sharding rule");
  const sharding::ShardingRule rule = ruled.getRuleWithUnits();
  auto dimsOf = [&](size_t i) -> const sharding::TensorFactors & {
    return i < op->getNumOperands() ? rule.operands[i] : rule.results[i - op->getNumOperands()];
  };
  std::optional<BatchFactor> factor;
  for (auto [i, tensor] : llvm::enumerate(tensors)) {
    auto at = placeIn(tensor);
    if (!at)
      continue;
    auto found = factorOf(rule, dimsOf(i), *at, old);
    if (!found || (factor && *factor != *found))
      return end(op->getLoc(), "it is not one factor of this operation");
    factor = found;
  }
  // A training batch norm is about whatever batch there is.
  if (rule.factors[factor->factor].kind != sharding::FactorKind::Parallel &&
      !isa<graph::BatchNormOp>(op))
    return end(op->getLoc(), "the operation mixes samples");
  for (auto [i, tensor] : llvm::enumerate(tensors)) {
    const bool isResult = i >= op->getNumOperands();
    auto at = placeOf(rule, dimsOf(i), *factor);
    if (at && (isResult || old > 1) && failed(place(tensor, *at)))
      return failure();
  }
  return success();
}

} // namespace dtc::raise
