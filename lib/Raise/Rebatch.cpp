// Gives a graph exported with one batch size another one.
//
// From dimension 0 of every input the batch is followed through the ops by
// their sharding rules, in both directions, until every dimension that contains
// it is known; then types change. What cannot follow is refused by name.
//
// A batch of one cannot be told from a dimension of size 1 of a parameter, so
// it is followed from the inputs downwards only, and what does not depend on an
// input is repeated where it meets the batch.
#include "BatchPlace.h"
#include "dtc/Raise/Passes.h"

#include "dtc-io/CheckedSize.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace dtc::raise {

#define GEN_PASS_DEF_REBATCH
#include "dtc/Raise/Passes.h.inc"

namespace {

class Rebatcher {
public:
  Rebatcher(func::FuncOp func, int64_t batch) : func(func), batch(batch) {}

  LogicalResult run() {
    if (failed(start()))
      return failure();
    if (old == batch || old == 0)
      return success();
    if (failed(propagate()) || failed(checkSources()) || failed(checkSizes()))
      return failure();
    retype();
    return success();
  }

private:
  LogicalResult start();
  LogicalResult propagate();
  LogicalResult visit(Operation *op);
  LogicalResult visitReshape(graph::ReshapeOp op);
  LogicalResult refuse(Location at, const Twine &why) const;
  LogicalResult place(Value value, const BatchPlace &at);
  LogicalResult checkSources();
  LogicalResult checkSizes();
  void retype();
  void retypeResult(OpResult result);
  void repeatOperands(Operation *op);

  std::optional<BatchPlace> placeIn(Value value) const {
    auto found = places.find(value);
    return found == places.end() ? std::nullopt : std::optional(found->second);
  }
  RankedTensorType rebatched(Value value) const {
    Shape shape(tensorType(value).getShape());
    const BatchPlace &at = places.find(value)->second;
    shape[at.dim] = at.outer * batch * at.inner;
    return tensorType(value).clone(shape);
  }
  func::FuncOp func;
  int64_t batch, old = 0;
  llvm::DenseMap<Value, BatchPlace> places; // looked up only
  bool changed = false;
};

} // namespace

LogicalResult Rebatcher::start() {
  for (BlockArgument argument : func.getArguments()) {
    auto role = graph::getArgRole(func, argument.getArgNumber());
    auto shape = graph::shapeOf(argument);
    if (!role || role.getKind() != graph::RoleKind::Input || shape.empty())
      continue;
    if (old != 0 && shape[0] != old)
      return func.emitError() << "inputs have different batch sizes: " << old << " and "
                              << shape[0];
    old = shape[0];
    places[argument] = {0, 1, 1};
  }
  return success();
}

/// Says how to leave the batch as the file has it.
LogicalResult Rebatcher::refuse(Location at, const Twine &why) const {
  return emitError(at) << "cannot change the batch: " << why << "; --global-batch " << old
                       << " keeps the file's, and an export with another batch has another";
}

/// Notes that `value` has the batch at `at`.
LogicalResult Rebatcher::place(Value value, const BatchPlace &at) {
  auto [entry, fresh] = places.try_emplace(value, at);
  changed |= fresh;
  if (entry->second == at)
    return success();
  return refuse(value.getLoc(), "dimensions " + Twine(entry->second.dim) + " and " + Twine(at.dim) +
                                    " of one value would both hold it");
}

LogicalResult Rebatcher::propagate() {
  SmallVector<Operation *> ops;
  func.getBody().walk([&](Operation *op) {
    if (!isa<func::FuncOp, func::ReturnOp>(op))
      ops.push_back(op);
  });
  do {
    changed = false;
    for (Operation *op : ops)
      if (failed(visit(op)))
        return failure();
    for (Operation *op : llvm::reverse(ops))
      if (old > 1 && failed(visit(op)))
        return failure();
  } while (changed);
  return success();
}

LogicalResult Rebatcher::visitReshape(graph::ReshapeOp op) {
  auto move = [&](Value from, Value to) -> LogicalResult {
    auto at = placeIn(from);
    if (!at)
      return success();
    auto moved = moveThroughReshape(*at, graph::shapeOf(from), graph::shapeOf(to), old);
    if (!moved)
      return refuse(op->getLoc(), "the reshape takes it apart");
    return place(to, *moved);
  };
  if (failed(move(op.getInput(), op.getResult())))
    return failure();
  return old == 1 ? success() : move(op.getResult(), op.getInput());
}

LogicalResult Rebatcher::visit(Operation *op) {
  if (auto reshape = dyn_cast<graph::ReshapeOp>(op))
    return visitReshape(reshape);
  if (op->hasTrait<OpTrait::ConstantLike>())
    return success(); // see checkSources
  SmallVector<Value> tensors(op->getOperands());
  tensors.append(op->result_begin(), op->result_end());
  if (llvm::none_of(tensors, [&](Value value) { return places.contains(value); }))
    return success();
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled)
    return refuse(op->getLoc(), "it has no sharding rule");
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
      return refuse(op->getLoc(), "it is not one factor of this operation");
    factor = found;
  }
  if (rule.factors[factor->factor].kind != sharding::FactorKind::Parallel)
    return refuse(op->getLoc(), "the operation mixes samples");
  for (auto [i, tensor] : llvm::enumerate(tensors)) {
    const bool isResult = i >= op->getNumOperands();
    auto at = placeOf(rule, dimsOf(i), *factor);
    if (at && (isResult || old > 1) && failed(place(tensor, *at)))
      return failure();
  }
  return success();
}

/// Parameters and constants may not contain the batch.
LogicalResult Rebatcher::checkSources() {
  for (BlockArgument argument : func.getArguments()) {
    auto role = graph::getArgRole(func, argument.getArgNumber());
    if (places.contains(argument) && role.getKind() != graph::RoleKind::Input)
      return refuse(func.getLoc(), "it is a dimension of " + Twine(role.getName()));
  }
  WalkResult result = func.walk([&](Operation *op) {
    if (op->getNumResults() != 1 || !places.contains(op->getResult(0)))
      return WalkResult::advance();
    const BatchPlace at = places.find(op->getResult(0))->second;
    DenseElementsAttr elements;
    if (matchPattern(op, m_Constant(&elements)) && !elements.isSplat()) {
      (void)refuse(op->getLoc(), "this constant varies along it");
      return WalkResult::interrupt();
    }
    auto iota = dyn_cast<graph::IotaOp>(op);
    if (iota && int64_t(iota.getDim()) == at.dim && (at.outer != 1 || at.inner != 1)) {
      (void)refuse(op->getLoc(), "it is a part of an index range");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// The batch comes from the command line: with it no size may overflow.
LogicalResult Rebatcher::checkSizes() {
  constexpr int64_t kWidestElement = 8; // bytes
  for (const auto &[value, at] : places) {
    Shape shape(tensorType(value).getShape());
    shape[at.dim] = 1;
    if (!(io::CheckedSize::product(shape) * at.outer * at.inner * batch * kWidestElement))
      return func.emitError() << "tensors would have too many elements with the batch " << batch;
  }
  return success();
}

/// A batch of one: operands without it that meet it are repeated.
void Rebatcher::repeatOperands(Operation *op) {
  if (isa<graph::ReshapeOp, graph::BroadcastOp>(op))
    return;
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled)
    return;
  const sharding::ShardingRule rule = ruled.getRuleWithUnits();
  std::optional<BatchFactor> factor;
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    if (auto at = placeIn(result))
      factor = factorOf(rule, rule.results[i], *at, old);
  if (!factor)
    return;
  Emitter emit(op->getLoc(), OpBuilder(op));
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    auto at = placeOf(rule, rule.operands[operand.getOperandNumber()], *factor);
    if (!at || places.contains(value))
      continue;
    // [inner] becomes [batch, inner], merged again where the batch is part of a dimension.
    Shape shape(tensorType(value).getShape()), dims;
    Shape split(shape.begin(), shape.begin() + at->dim), full = split;
    split.append({at->outer, at->inner});
    full.append({at->outer, batch, at->inner});
    for (int64_t i = 0; i < int64_t(full.size()) + int64_t(shape.size()) - at->dim - 1; ++i)
      if (i != at->dim + 1)
        dims.push_back(i);
    split.append(shape.begin() + at->dim + 1, shape.end());
    full.append(shape.begin() + at->dim + 1, shape.end());
    shape[at->dim] = at->outer * batch * at->inner;
    value = broadcastAlong(emit, reshape(emit, value, split), full, dims);
    operand.set(reshape(emit, value, shape));
  }
}

void Rebatcher::retypeResult(OpResult result) {
  const RankedTensorType type = rebatched(result);
  DenseElementsAttr elements;
  if (matchPattern(result, m_Constant(&elements)))
    result.getOwner()->setAttr("value", elements.resizeSplat(type));
  result.setType(type);
}

void Rebatcher::retype() {
  SmallVector<Operation *> ops;
  func.getBody().walk([&](Operation *op) { ops.push_back(op); });
  if (old == 1)
    for (Operation *op : ops)
      repeatOperands(op);
  for (BlockArgument argument : func.getArguments())
    if (places.contains(argument))
      argument.setType(rebatched(argument));
  for (Operation *op : ops)
    for (OpResult result : op->getResults())
      if (places.contains(result))
        retypeResult(result);
  Operation *end = func.getBody().front().getTerminator();
  func.setType(FunctionType::get(func.getContext(), func.getBody().getArgumentTypes(),
                                 end->getOperandTypes()));
}

namespace {
struct Rebatch : impl::RebatchBase<Rebatch> {
  using RebatchBase::RebatchBase;

  void runOnOperation() override {
    auto func = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (!func || func.isExternal())
      return;
    if (batch < 1) {
      func.emitError() << "the batch must be positive: " << batch.getValue();
      return signalPassFailure();
    }
    if (failed(Rebatcher(func, batch).run()))
      signalPassFailure();
  }
};
} // namespace

} // namespace dtc::raise
