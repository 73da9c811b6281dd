// Forward and backward passes on stored parameters and gradients.
#include "FlatForm.h"

using namespace mlir;
using namespace dtc::sharding;
using dtc::graph::RoleKind;

namespace dtc::partition {

namespace {

/// Which ops of a function belong to the backward pass: those that are marked, what depends on
/// them, and what partitioning made for them alone.
class BackwardOps {
public:
  explicit BackwardOps(Block &block) {
    for (Operation &op : block.without_terminator())
      if (op.hasAttr(graph::GraphDialect::kBackward) ||
          llvm::any_of(op.getOperands(),
                       [&](Value operand) { return has(operand.getDefiningOp()); }))
        ops.insert(&op);
    for (Operation &op : llvm::reverse(block.without_terminator()))
      if (!op.hasAttr(graph::GraphDialect::kId) && !op.use_empty() &&
          llvm::all_of(op.getUsers(), [&](Operation *user) { return has(user); }))
        ops.insert(&op);
  }
  bool has(Operation *op) const { return op && ops.contains(op); }
  void add(Operation *op) { ops.insert(op); }

private:
  DenseSet<Operation *> ops;
};

class StoredPassRewriter {
public:
  explicit StoredPassRewriter(StoredFunction &stored)
      : stored(stored), func(stored.getFunction()), block(func.getBody().front()), backward(block) {
  }

  LogicalResult run() {
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      if (graph::RoleAttr role = graph::getArgRole(func, i);
          role && role.getKind() == RoleKind::Parameter)
        if (const FlatForm *form = stored.storedAs(role))
          if (failed(gatherParameter(i, *form)))
            return failure();
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      if (graph::RoleAttr role = graph::getResultRole(func, i);
          role && role.getKind() == RoleKind::Gradient)
        if (const FlatForm *form = stored.storedAs(role))
          if (failed(scatterGradient(i, role, *form)))
            return failure();
    return success();
  }

private:
  /// What is made of a parameter alone and costs next to nothing is made again in the
  /// backward pass, rather than kept for it.
  void remakeForBackward(Value value) {
    for (Operation *op : llvm::to_vector(value.getUsers())) {
      bool isView =
          graph::isElementwise(op) || isa<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp>(op);
      if (backward.has(op) || !isView || op->getNumOperands() != 1)
        continue;
      Value made = op->getResult(0);
      remakeForBackward(made);
      Operation *first = firstUser(made, /*inBackward=*/true);
      if (!first)
        continue;
      OpBuilder builder(first);
      Operation *clone = builder.clone(*op);
      clone->removeAttr(graph::GraphDialect::kId);
      made.replaceUsesWithIf(clone->getResult(0),
                             [&](OpOperand &use) { return backward.has(use.getOwner()); });
      backward.add(clone);
    }
  }

  Operation *firstUser(Value value, bool inBackward) const {
    Operation *first = nullptr;
    for (Operation *user : value.getUsers())
      if (backward.has(user) == inBackward && (!first || user->isBeforeInBlock(first)))
        first = user;
    return first;
  }

  LogicalResult gatherParameter(unsigned index, const FlatForm &form) {
    BlockArgument argument = func.getArgument(index);
    remakeForBackward(argument);
    Operation *inForward = firstUser(argument, false), *inBackward = firstUser(argument, true);
    SmallVector<OpOperand *> uses[2]; // in the forward and in the backward pass
    for (OpOperand &use : argument.getUses())
      uses[backward.has(use.getOwner())].push_back(&use);
    stored.setArgument(index, form, {});
    if (inForward)
      gatherBefore(inForward, argument, form, uses[0]);
    if (!inBackward)
      return success();
    OpBuilder builder(inBackward);
    Value part = graph::BarrierOp::create(builder, argument.getLoc(), argument.getType(), argument);
    gatherBefore(inBackward, part, form, uses[1]);
    return success();
  }

  static void gatherBefore(Operation *first, Value part, const FlatForm &form,
                           ArrayRef<OpOperand *> uses) {
    OpBuilder builder(first);
    Value whole = form.gather(builder, part);
    for (OpOperand *use : uses)
      use->set(whole);
  }

  BlockArgument accumulatorOf(graph::RoleAttr role) {
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      if (graph::getArgRole(func, i) == role)
        return func.getArgument(i);
    return {};
  }

  /// Each microbatch's gradient is scattered, then added.
  LogicalResult scatterGradient(unsigned index, graph::RoleAttr role, const FlatForm &form) {
    OpOperand &returned = block.getTerminator()->getOpOperand(index);
    Value gradient = returned.get();
    AxisList pending = stored.pendingOf(func.getResultAttr(index, dist::DistDialect::kSharding));
    BlockArgument accumulator = accumulatorOf(role);
    auto sum = gradient.getDefiningOp<graph::SumOp>();
    if (accumulator && (!sum || !accumulator.hasOneUse() || *accumulator.user_begin() != sum ||
                        !gradient.hasOneUse()))
      return func.emitOpError("doesn't only add to the accumulator of ") << role.getName();
    OpBuilder builder(func.getContext());
    if (!accumulator) {
      builder.setInsertionPointAfterValue(gradient);
      returned.set(form.scatter(builder, gradient, pending));
      stored.setResult(index, form, pending);
      return success();
    }
    builder.setInsertionPoint(sum);
    SmallVector<Value> terms;
    for (Value input : sum.getInputs())
      if (input != accumulator)
        terms.push_back(input);
    Value term = terms.size() == 1
                     ? terms.front()
                     : graph::SumOp::create(builder, sum.getLoc(), gradient.getType(), terms);
    Value part = form.scatter(builder, term, pending);
    stored.setArgument(accumulator.getArgNumber(), form, pending);
    auto added =
        graph::SumOp::create(builder, sum.getLoc(), part.getType(), ValueRange{accumulator, part});
    added->setDiscardableAttrs(sum->getDiscardableAttrDictionary());
    returned.set(added);
    sum.erase();
    stored.setResult(index, form, pending);
    return success();
  }

  StoredFunction &stored;
  func::FuncOp func;
  Block &block;
  BackwardOps backward;
};

} // namespace

LogicalResult rewriteStoredPasses(StoredFunction &stored) {
  return StoredPassRewriter(stored).run();
}

} // namespace dtc::partition
