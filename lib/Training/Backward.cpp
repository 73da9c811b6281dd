#include "dtc/Training/Backward.h"

#include "JoinGradients.h"

#include "dtc/Dialect/Graph/StopGradientOp.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::training {

/// What only stops gradients isn't there when the step is built, and nothing may belong to it.
void numberForwardOps(Block &block) {
  Builder builder(block.getParentOp()->getContext());
  int64_t id = 0;
  for (Operation &op : block)
    if (!op.hasTrait<OpTrait::IsTerminator>() && !isa<StopGradientOp>(op))
      op.setAttr(GraphDialect::kId, builder.getI64IntegerAttr(id++));
}

static bool isFloat(Value value) { return isa<FloatType>(getElementTypeOrSelf(value)); }

/// Parameters and buffers are the model's own; all else varies with the data.
static bool isData(BlockArgument argument) {
  auto func = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  RoleAttr role = getArgRole(func, argument.getArgNumber());
  return !role || (role.getKind() != RoleKind::Parameter && role.getKind() != RoleKind::Buffer);
}

Backward::Backward(Block &block, ArrayRef<Value> wanted) : block(block) { findActive(wanted); }

void Backward::findActive(ArrayRef<Value> wanted) {
  active.insert(wanted.begin(), wanted.end());
  for (BlockArgument argument : block.getArguments())
    if (isData(argument))
      fromData.insert(argument);
  for (Operation &op : block) {
    bool isActive = !isa<StopGradientOp>(op) &&
                    llvm::any_of(op.getOperands(), [&](Value v) { return active.contains(v); });
    bool isFromData =
        llvm::any_of(op.getOperands(), [&](Value v) { return fromData.contains(v); });
    for (Value result : op.getResults()) {
      if (isActive && isFloat(result))
        active.insert(result);
      if (isFromData)
        fromData.insert(result);
    }
  }
}

/// An argument's gradient belongs to the first op that reads it: its backward
/// comes last.
int64_t Backward::forwardId(Value value) const {
  auto idOf = [](Operation *op) -> int64_t {
    auto id = op->getAttrOfType<IntegerAttr>(GraphDialect::kId);
    return id ? id.getInt() : -1;
  };
  if (Operation *op = value.getDefiningOp())
    return std::max<int64_t>(idOf(op), 0);
  int64_t first = -1;
  for (Operation *user : value.getUsers())
    if (int64_t id = idOf(user); id >= 0 && (first < 0 || id < first))
      first = id;
  return std::max<int64_t>(first, 0);
}

void Backward::markNewOps(Operation *last, int64_t forward, BackwardKind kind) {
  auto attr = BackwardAttr::get(block.getParentOp()->getContext(), forward, kind);
  for (auto it = std::next(last->getIterator()); it != block.end(); ++it)
    it->setAttr(GraphDialect::kBackward, attr);
}

void Backward::addContribution(Value value, Value gradient) {
  contributions[value].push_back(gradient);
  if (fromData.contains(value))
    dataGradients.push_back(gradient);
}

Value Backward::accumulate(Value value, llvm::function_ref<Value(OpBuilder &)> build) {
  Operation *last = &block.back();
  OpBuilder builder = OpBuilder::atBlockEnd(&block);
  Value result = build(builder);
  markNewOps(last, forwardId(value), BackwardKind::Accumulate);
  return result;
}

Value Backward::joined(Value value) {
  auto it = contributions.find(value);
  if (it == contributions.end())
    return nullptr;
  SmallVector<Value> parts(it->second.begin(), it->second.end());
  contributions.erase(it);
  Value sum = accumulate(value, [&](OpBuilder &builder) {
    return joinGradients(builder, value.getLoc(), parts);
  });
  if (fromData.contains(value))
    dataGradients.push_back(sum);
  return sum;
}

LogicalResult Backward::differentiate(Operation *op) {
  SmallVector<Value> resultGrads =
      llvm::map_to_vector(op->getResults(), [&](Value result) { return joined(result); });
  if (llvm::none_of(resultGrads, [](Value grad) { return grad != nullptr; }))
    return success();
  SmallVector<bool> needed = llvm::map_to_vector(
      op->getOperands(), [&](Value operand) { return active.contains(operand); });
  if (!llvm::is_contained(needed, true))
    return success();
  auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
  if (!differentiable)
    return op->emitError() << "can't be trained through, it has no gradient: " << op->getName();

  Operation *last = &block.back();
  OpBuilder builder = OpBuilder::atBlockEnd(&block);
  SmallVector<Value> operandGrads(op->getNumOperands());
  if (failed(differentiable.buildGradient(builder, resultGrads, needed, operandGrads)))
    return failure();
  markNewOps(last, forwardId(op->getResult(0)), BackwardKind::WeightGrad);
  for (auto [operand, grad] : llvm::zip_equal(op->getOperands(), operandGrads)) {
    if (!grad)
      continue;
    if (grad.getType() != operand.getType())
      return op->emitError() << "built a gradient of another type than its operand's: "
                             << grad.getType();
    addContribution(operand, grad);
  }
  return success();
}

/// Behind the last op that makes an operand: at the end of a step, all would be alive until then.
static void moveToOperands(Operation *join) {
  if (!isa_and_present<SumOp, ConcatOp>(join))
    return;
  Operation *last = nullptr;
  for (Value operand : join->getOperands())
    if (Operation *maker = operand.getDefiningOp();
        maker && (!last || last->isBeforeInBlock(maker)))
      last = maker;
  if (last)
    join->moveAfter(last);
}

LogicalResult Backward::run(Value start, llvm::function_ref<Value(OpBuilder &)> seed) {
  SmallVector<Operation *> forward =
      llvm::map_to_vector(block, [](Operation &op) { return &op; });
  Operation *last = forward.back();
  OpBuilder builder = OpBuilder::atBlockEnd(&block);
  Value first = seed(builder);
  markNewOps(last, forwardId(start), BackwardKind::WeightGrad);
  addContribution(start, first);
  for (Operation *op : llvm::reverse(forward))
    if (failed(differentiate(op)))
      return failure();
  for (BlockArgument argument : block.getArguments())
    if (active.contains(argument))
      if (Value gradient = joined(argument)) {
        moveToOperands(gradient.getDefiningOp());
        gradients[argument] = gradient;
      }
  markInputGrads();
  return success();
}

/// What leads to the gradient of a value that depends on data is an input
/// gradient; the rest serves parameters alone.
void Backward::markInputGrads() {
  llvm::SmallPtrSet<Operation *, 32> inputGrads;
  for (Value gradient : dataGradients)
    if (Operation *op = gradient.getDefiningOp())
      inputGrads.insert(op);
  for (Operation &op : llvm::reverse(block)) {
    auto attr = op.getAttrOfType<BackwardAttr>(GraphDialect::kBackward);
    if (!attr || !inputGrads.contains(&op))
      continue;
    if (attr.getKind() != BackwardKind::Accumulate)
      op.setAttr(GraphDialect::kBackward,
                 BackwardAttr::get(op.getContext(), attr.getForward(), BackwardKind::InputGrad));
    for (Value operand : op.getOperands())
      if (Operation *producer = operand.getDefiningOp())
        inputGrads.insert(producer);
  }
}

} // namespace dtc::training
