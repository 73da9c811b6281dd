#include "SharedParts.h"

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Dialect/Graph/MergeDuplicates.h"
#include "dtc/Target/Target.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::stages {

bool isRecomputed(Operation *op) {
  auto mark = op->getAttrOfType<BackwardAttr>(GraphDialect::kBackward);
  return mark && mark.getKind() == BackwardKind::Recompute;
}

LogicalResult takeApartShared(func::FuncOp joint) {
  FailureOr<const target::Target *> target = target::targetOf(joint);
  if (failed(target))
    return failure();
  SmallVector<DecomposableOpInterface> shared;
  DenseSet<int64_t> keeps;
  for (Operation &op : joint.front().without_terminator()) {
    auto id = op.getAttrOfType<IntegerAttr>(GraphDialect::kId);
    auto backward = op.getAttrOfType<BackwardAttr>(GraphDialect::kBackward);
    auto cost = dyn_cast<CostOpInterface>(op);
    if (id && cost && cost.getCost().saved > 0 && !(*target)->staysWhole(&op))
      keeps.insert(id.getInt());
    bool isPart =
        id ? keeps.contains(id.getInt()) : backward && keeps.contains(backward.getForward());
    if (auto decomposable = dyn_cast<DecomposableOpInterface>(op); isPart && decomposable)
      shared.push_back(decomposable);
  }
  DenseMap<Operation *, Attribute> marks; // of what is computed again
  for (DecomposableOpInterface op : shared) {
    OpBuilder builder(op);
    Operation *before = op->getPrevNode();
    auto results = op.decompose(builder);
    if (failed(results))
      return op.emitOpError("cannot be taken apart for its backward pass");
    if (isRecomputed(op))
      for (Operation *part = op->getPrevNode(); part != before; part = part->getPrevNode())
        marks.try_emplace(part, op->getAttr(GraphDialect::kBackward));
    op->replaceAllUsesWith(*results);
    op->erase();
  }
  if (shared.empty())
    return success();
  // Marked before, parts that compute the same in both passes would differ.
  mergeDuplicates(joint, [&](Operation *gone) { marks.erase(gone); });
  for (Operation &op : joint.front())
    if (Attribute mark = marks.lookup(&op))
      op.setAttr(GraphDialect::kBackward, mark);
  return success();
}

} // namespace dtc::stages
