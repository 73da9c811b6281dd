#include "BatchNorms.h"

#include "PhaseFunction.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::training {

/// Puts the parts in front of the op. They belong to the forward op that it is, or belongs to.
static LogicalResult decompose(Operation *op) {
  Operation *before = op->getPrevNode();
  OpBuilder builder(op);
  auto parts = cast<DecomposableOpInterface>(op).decompose(builder);
  if (failed(parts))
    return failure();
  Operation *part = before ? before->getNextNode() : &op->getBlock()->front();
  for (; part != op; part = part->getNextNode())
    for (StringRef name : {GraphDialect::kId, GraphDialect::kBackward})
      if (Attribute attribute = op->getAttr(name))
        part->setAttr(name, attribute);
  op->replaceAllUsesWith(*parts);
  op->erase();
  return success();
}

/// Of several ops with one number, backward ops belong to the last.
static void renumber(Block &block) {
  Builder builder(block.getParentOp()->getContext());
  llvm::DenseMap<int64_t, int64_t> numbers;
  int64_t next = 0;
  for (Operation &op : block)
    if (auto id = op.getAttrOfType<IntegerAttr>(GraphDialect::kId)) {
      numbers[id.getInt()] = next;
      op.setAttr(GraphDialect::kId, builder.getI64IntegerAttr(next++));
    }
  for (Operation &op : block)
    if (auto backward = op.getAttrOfType<BackwardAttr>(GraphDialect::kBackward))
      op.setAttr(GraphDialect::kBackward,
                 BackwardAttr::get(op.getContext(), numbers.lookup(backward.getForward()),
                                   backward.getKind()));
}

LogicalResult decomposeBatchNorms(func::FuncOp func) {
  Block &block = func.getBody().front();
  bool any = false;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (!isa<BatchNormOp, BatchNormGradOp>(op))
      continue;
    any = true;
    if (failed(decompose(&op)))
      return failure();
  }
  if (!any)
    return success();
  eraseDeadOps(block);
  renumber(block);
  return success();
}

} // namespace dtc::training
