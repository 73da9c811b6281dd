#include "Evaluation.h"

#include "dtc/Dialect/Graph/Evaluation.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::training {

static bool isRunningStatistic(OpOperand &use) {
  auto norm = dyn_cast<BatchNormOp>(use.getOwner());
  return norm && norm.getRunningMean() &&
         use.getOperandNumber() >= norm.getRunningMeanMutable().begin()->getOperandNumber();
}

/// Whether an outcome is computed from a value otherwise than as a batch norm's running statistic.
static bool reaches(Value start, ArrayRef<Value> outcomes) {
  DenseSet<Value> seen = {start};
  SmallVector<Value> next = {start};
  while (!next.empty()) {
    Value value = next.pop_back_val();
    if (llvm::is_contained(outcomes, value))
      return true;
    for (OpOperand &use : value.getUses()) {
      if (isRunningStatistic(use))
        continue;
      for (Value result : use.getOwner()->getResults())
        if (seen.insert(result).second)
          next.push_back(result);
    }
  }
  return false;
}

/// Whether nothing but the buffer itself decides what replaces it, as where batches are counted.
static bool countsAlone(BlockArgument buffer, Value change) {
  SmallVector<Value> next = {change};
  DenseSet<Value> seen;
  while (!next.empty()) {
    Value value = next.pop_back_val();
    if (isa<BlockArgument>(value) && value != buffer)
      return false;
    if (Operation *maker = value.getDefiningOp(); maker && seen.insert(value).second)
      llvm::append_range(next, maker->getOperands());
  }
  return true;
}

/// Whether it is known what eval() computes without this change.
static bool isKnown(BlockArgument buffer, Value change, ArrayRef<Value> outcomes) {
  return buffer && !reaches(buffer, outcomes) &&
         (llvm::any_of(buffer.getUses(), isRunningStatistic) || countsAlone(buffer, change));
}

static BlockArgument argumentOf(PhaseFunction &function, RoleAttr buffer) {
  func::FuncOp func = function.func();
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    if (getArgRole(func, i) == buffer)
      return func.getArgument(i);
  return nullptr;
}

void addEvaluation(PhaseFunction &function, MutableArrayRef<BufferChange> changes,
                   ArrayRef<Value> outcomes) {
  Block &body = function.body();
  bool normalizes =
      llvm::any_of(body.getOps<BatchNormOp>(), [](BatchNormOp op) { return op.getRunningMean(); });
  bool areKnown = llvm::all_of(changes, [&](const BufferChange &change) {
    return isKnown(argumentOf(function, change.second), change.first, outcomes);
  });
  if (!areKnown || (!normalizes && changes.empty()))
    return;
  MLIRContext *context = function.func().getContext();
  Value evaluation = function.argument(RankedTensorType::get({}, Float32Type::get(context)),
                                       scalarRole(context, ScalarKind::Evaluation));
  for (auto norm : body.getOps<BatchNormOp>())
    if (norm.getRunningMean())
      norm.getEvaluationMutable().assign(evaluation);
  for (auto &[value, role] : changes) {
    OpBuilder builder(context);
    builder.setInsertionPointAfterValue(value);
    TensorBuilder b(builder, value.getLoc());
    value = chooseByEvaluation(b, evaluation, argumentOf(function, role), value);
  }
}

} // namespace dtc::training
