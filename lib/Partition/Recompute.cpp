#include "dtc/Partition/Recompute.h"

#include "Ring.h"

#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Dialect/Graph/Evaluation.h"
#include "dtc/Dialect/Graph/RandomOps.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::partition {
namespace {

/// The ops of one block in a function, in order.
struct Block {
  dist::Recompute kind;
  SmallVector<Operation *> forward, backward;
};

using Blocks = llvm::MapVector<int64_t, Block>;

bool isArgument(Value value, RoleKind kind) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto function = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : nullptr;
  RoleAttr role = function ? getArgRole(function, argument.getArgNumber()) : nullptr;
  return role && role.getKind() == kind;
}

/// The keys from which masks of dropout are drawn.
bool isDropoutKeys(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return isArgument(value, RoleKind::Input) &&
         getArgRole(cast<func::FuncOp>(argument.getOwner()->getParentOp()), argument.getArgNumber())
                 .getName() == DropoutOp::kKeys;
}

/// What an earlier stage computed of parameters, on another rank or on this one.
bool isReceivedActivation(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto function = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : nullptr;
  if (!function)
    return false;
  auto runs = function.getArgAttrOfType<RunsAttr>(argument.getArgNumber(), GraphDialect::kRuns);
  return runs && runs.getPasses() == Passes::Forward;
}

/// Moves elements or repeats them.
bool isView(Operation *op) {
  return isa_and_present<ReshapeOp, TransposeOp, BroadcastOp, SliceOp>(op);
}

/// Attention, as far as it keeps something inside. One whose keys go round keeps nothing.
bool isSelected(Operation *op) {
  auto cost = dyn_cast<CostOpInterface>(op);
  return cost && !goesRound(op) && cost.getCost().kind == sharding::OpKind::Attention &&
         cost.getCost().saved > 0;
}

/// What has to be there for an op to be computed again. No backward pass matters to an evaluation.
SmallVector<Value> neededBy(Operation *op) {
  Value trained = trainedChoice(op);
  return trained ? SmallVector<Value>{trained} : SmallVector<Value>(op->getOperands());
}

/// The forward values that depend on parameters.
class Activations {
public:
  explicit Activations(func::FuncOp function) {
    for (BlockArgument argument : function.getArguments())
      if (isReceivedActivation(argument))
        values.insert(argument);
    for (Operation &op : function.front())
      if (op.hasAttr(GraphDialect::kId) && llvm::any_of(op.getOperands(), [&](Value operand) {
            return contains(operand) || isArgument(operand, RoleKind::Parameter);
          }))
        values.insert_range(op.getResults());
  }
  bool contains(Value value) const { return values.contains(value); }

private:
  DenseSet<Value> values;
};

/// Computes one block again for its backward pass.
class BlockClone {
public:
  BlockClone(const Activations &activations, const Block &block)
      : activations(activations), block(block), inside(block.forward.begin(), block.forward.end()) {
  }

  void run() {
    for (Operation *op : block.forward)
      for (Value result : op->getResults())
        if (!isFull())
          copies[result] = result;
    const auto *first = llvm::find_if(block.backward, [&](Operation *op) {
      return llvm::any_of(op->getOperands(), [&](Value operand) {
        return isDrawnAgain(operand) ||
               (activations.contains(operand) && !copies.contains(operand));
      });
    });
    if (first == block.backward.end())
      return;
    builder.emplace(*first);
    if (isFull())
      cloneNeeded();
    for (Operation *op : block.backward)
      for (OpOperand &operand : op->getOpOperands())
        operand.set(again(operand.get()));
  }

private:
  bool isFull() const { return block.kind == dist::Recompute::Full; }
  /// Masks are drawn again for the backward pass. Without a barrier those of the forward pass would
  /// be kept instead, as they depend on keys alone.
  bool isDrawnAgain(Value value) const { return isFull() && isDropoutKeys(value); }

  /// Of the block, what its backward pass reads and what that is computed from.
  void cloneNeeded() {
    DenseSet<Operation *> needed;
    auto need = [&](Operation *reader) {
      for (Value operand : neededBy(reader))
        if (activations.contains(operand) && inside.contains(operand.getDefiningOp()))
          needed.insert(operand.getDefiningOp());
    };
    llvm::for_each(block.backward, need);
    for (Operation *op : llvm::reverse(block.forward))
      if (needed.contains(op))
        need(op);
    for (Operation *op : block.forward)
      if (needed.contains(op))
        clone(op);
  }

  /// The value as the backward pass reads it.
  Value again(Value value) {
    if (!activations.contains(value) && !isDrawnAgain(value))
      return value;
    if (Value known = copies.lookup(value))
      return known;
    if (isView(value.getDefiningOp()))
      clone(value.getDefiningOp());
    else
      copies[value] = behindBarrier(value);
    return copies.lookup(value);
  }

  void clone(Operation *op) {
    if (Value trained = trainedChoice(op)) { // the buffer that is the other one may be replaced
      copies[op->getResult(0)] = again(trained);
      return;
    }
    IRMapping operands;
    for (Value operand : op->getOperands())
      operands.map(operand, again(operand));
    if (llvm::none_of(op->getOperands(), [&](Value v) { return activations.contains(v); }))
      for (Value operand : op->getOperands())
        if (isArgument(operand, RoleKind::Parameter))
          operands.map(operand, behindBarrier(operand));
    Operation *copy = builder->clone(*op, operands);
    mark(copy, op->getAttrOfType<IntegerAttr>(GraphDialect::kId).getInt());
    for (auto [before, after] : llvm::zip_equal(op->getResults(), copy->getResults()))
      copies[before] = after;
  }

  Value behindBarrier(Value value) {
    auto barrier = BarrierOp::create(*builder, value.getLoc(), value.getType(), value);
    mark(barrier, block.forward.front()->getAttrOfType<IntegerAttr>(GraphDialect::kId).getInt());
    return barrier;
  }

  void mark(Operation *op, int64_t forward) {
    op->removeAttr(GraphDialect::kId);
    op->setAttr(GraphDialect::kBackward,
                BackwardAttr::get(op->getContext(), forward, BackwardKind::Recompute));
  }

  const Activations &activations;
  const Block &block;
  DenseSet<Operation *> inside;
  std::optional<OpBuilder> builder;
  DenseMap<Value, Value> copies; ///< of forward values, for the backward pass
};

} // namespace

/// Takes dist.recompute off the ops.
static FailureOr<Blocks> takeBlocks(func::FuncOp function) {
  Blocks blocks;
  DenseMap<int64_t, int64_t> blockOf; // by forward op
  for (Operation &op : function.front()) {
    auto asked = op.getAttrOfType<dist::RecomputeAttr>(dist::DistDialect::kRecompute);
    if (asked) {
      auto id = op.getAttrOfType<IntegerAttr>(GraphDialect::kId);
      if (!id)
        return op.emitOpError("is no forward op, but shall be computed again");
      Block &block = blocks.insert({asked.getBlock(), {asked.getKind(), {}, {}}}).first->second;
      if (block.kind != asked.getKind())
        return op.emitOpError("belongs to a block of another kind of recomputation: ") << asked;
      op.removeAttr(dist::DistDialect::kRecompute);
      if (asked.getKind() == dist::Recompute::Selective && !isSelected(&op))
        continue;
      block.forward.push_back(&op);
      blockOf[id.getInt()] = asked.getBlock();
    }
    auto backward = op.getAttrOfType<BackwardAttr>(GraphDialect::kBackward);
    auto of = backward ? blockOf.find(backward.getForward()) : blockOf.end();
    if (of != blockOf.end())
      blocks[of->second].backward.push_back(&op);
  }
  return blocks;
}

LogicalResult recompute(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || !function.getBody().hasOneBlock())
      continue; // partition refuses them
    FailureOr<Blocks> blocks = takeBlocks(function);
    if (failed(blocks))
      return failure();
    Activations activations(function);
    for (const Block &block : llvm::make_second_range(*blocks))
      BlockClone(activations, block).run();
  }
  return success();
}

} // namespace dtc::partition
