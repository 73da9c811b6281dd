// The update on parts: what one parameter's update reads and makes is divided, up to the norm.
#include "FlatForm.h"

#include "dtc/Dialect/Dist/StageOps.h"
#include "dtc/Dialect/Graph/StepOps.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace dtc::sharding;

namespace dtc::partition {

namespace {

class StoredUpdateRewriter {
public:
  explicit StoredUpdateRewriter(StoredFunction &stored)
      : stored(stored), func(stored.getFunction()), block(func.getBody().front()),
        builder(func.getContext()) {}

  LogicalResult run() {
    if (!divideArguments())
      return success();
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
      builder.setInsertionPoint(&op);
      if (failed(visit(&op)))
        return failure();
    }
    if (failed(returnResults()))
      return failure();
    for (Operation *op : llvm::reverse(replaced)) {
      if (!op->use_empty())
        return op->emitOpError("is read as a whole, but its parameter's update is divided");
      op->erase();
    }
    return success();
  }

private:
  /// False where nothing of the function is stored divided.
  bool divideArguments() {
    for (BlockArgument argument : func.getArguments()) {
      unsigned index = argument.getArgNumber();
      graph::RoleAttr role = graph::getArgRole(func, index);
      const FlatForm *form = role ? stored.updatedAs(graph::weightOf(role)) : nullptr;
      if (!form)
        continue;
      forms[argument] = form;
      AxisList pending = stored.pendingOf(func.getArgAttr(index, dist::DistDialect::kSharding));
      if (!stored.storedAs(role))
        continue;
      llvm::erase_if(pending,
                     [&](AxisId axis) { return llvm::is_contained(form->getAxes(), axis); });
      stored.setArgument(index, *form, pending);
      parts[argument] = argument;
    }
    return !forms.empty();
  }

  const FlatForm *formOf(Operation *op) const {
    for (Value operand : op->getOperands())
      if (const FlatForm *form = forms.lookup(operand))
        return form;
    return isa<dist::StageSumOp>(op) && op->getNumOperands() == 1 ? formOfReaders(op->getResult(0))
                                                                  : nullptr;
  }

  /// A rank that gives zeros to a sum divides them as what it updates with the sum.
  const FlatForm *formOfReaders(Value sum) const {
    for (Operation *reader : sum.getUsers()) {
      const FlatForm *form = nullptr;
      for (Value operand : reader->getOperands())
        form = form ? form : forms.lookup(operand);
      if (!form && graph::isElementwise(reader))
        form = formOfReaders(reader->getResult(0));
      if (form)
        return form;
    }
    return nullptr;
  }

  LogicalResult visit(Operation *op) {
    if (llvm::any_of(op->getOperands(), [&](Value v) { return pendingScalars.contains(v); }))
      return visitScalar(op);
    if (isAboutWhole(op))
      return visitWhole(op);
    const FlatForm *form = formOf(op);
    if (!form)
      return success();
    bool isPartlySummed =
        llvm::any_of(op->getOperands(), [&](Value v) { return totals.contains(v); });
    if (isPartlySummed && !isa<graph::ReduceOp>(op))
      return op->emitOpError("reads a sum that is only partly divided");
    if (auto reduce = dyn_cast<dist::AllReduceOp>(op); reduce && reduce.getInputs().size() == 1)
      return visitSum(reduce, *form);
    if (auto reduce = dyn_cast<graph::ReduceOp>(op))
      return visitReduction(reduce, *form);
    bool isDivisible =
        graph::isElementwise(op) ||
        isa<graph::AdamUpdateOp, graph::SgdUpdateOp, graph::CommitOp, graph::SumOp>(op) ||
        (isa<dist::StageSumOp>(op) && op->getNumOperands() == 1);
    if (!isDivisible)
      return op->emitOpError("can't be divided with its parameter's update");
    divide(op, *form);
    return success();
  }

  /// The sum of a gradient, of which each rank gets its part.
  LogicalResult visitSum(dist::AllReduceOp op, const FlatForm &form) {
    Value input = op.getInputs().front();
    if (op.getKind() != graph::ReduceKind::Sum)
      return op.emitOpError("can't be divided with its parameter's update");
    AxisList pending = stored.axesOf(op.getAxes());
    Value part = parts.lookup(input);
    if (part)
      llvm::erase_if(pending,
                     [&](AxisId axis) { return llvm::is_contained(form.getAxes(), axis); });
    else
      part = form.scatter(builder, input, pending);
    if (!pending.empty())
      part = form.allReduce(builder, part, pending);
    setPart(op.getResult(0), part, form);
    replaced.push_back(op);
    return success();
  }

  static bool isSumApart(Operation *op) {
    auto sum = dyn_cast<dist::StageSumOp>(op);
    return sum && sum.getApart();
  }

  static bool isReshard(Operation *op) {
    return isa<dist::AllGatherOp, dist::AllToAllOp, dist::PermuteOp, dist::SliceOp>(op);
  }

  static bool leadsToSumApart(Operation *op) {
    return isSumApart(op) ||
           (isReshard(op) && !op->use_empty() && llvm::all_of(op->getUsers(), leadsToSumApart));
  }

  /// Ranks of another mesh have other parts, so that sums with them are of wholes.
  bool isAboutWhole(Operation *op) const {
    return leadsToSumApart(op) || (isReshard(op) && wholes.contains(op->getOperand(0)));
  }

  /// Stays as it is, and has whole operands. Who reads the rank's shard in the end cuts it.
  LogicalResult visitWhole(Operation *op) {
    if (op->getNumOperands() != 1)
      return success(); // the step vector
    Value operand = op->getOperand(0), result = op->getResult(0);
    const FlatForm *form = wholes.lookup(operand);
    if (!form)
      form = forms.lookup(operand);
    if (!form)
      return success();
    if (Value part = parts.lookup(operand))
      op->setOperand(0, form->gather(builder, part));
    bool isBefore = isReshard(op) && leadsToSumApart(op);
    bool isShard = !isBefore && graph::shapeOf(result) == form->shardShape();
    (isShard ? forms : wholes)[result] = form;
    return success();
  }

  void setPart(Value whole, Value part, const FlatForm &form) {
    forms[whole] = &form;
    parts[whole] = part;
  }

  /// The rank's part of an operand. A number may belong to parameters of one shape whose parts
  /// differ.
  Value partOf(Value value, const FlatForm &form) {
    Value &part = parts[value];
    Type type = form.partType(getElementTypeOrSelf(value));
    if (part && part.getType() == type)
      return part;
    DenseElementsAttr number;
    if (matchPattern(value, m_Constant(&number)) && number.isSplat())
      return part = arith::ConstantOp::create(
                 builder, value.getLoc(),
                 DenseElementsAttr::get(cast<ShapedType>(type), number.getSplatValue<Attribute>()));
    OpBuilder::InsertionGuard guard(builder);
    if (auto argument = dyn_cast<BlockArgument>(value); !argument && value.getDefiningOp())
      builder.setInsertionPointAfter(value.getDefiningOp());
    return part = form.cut(builder, value);
  }

  /// How many operands are of the parameter's shape; those behind them are numbers.
  static unsigned dividedOperands(Operation *op) {
    if (isa<graph::AdamUpdateOp>(op))
      return 4;
    if (isa<graph::CommitOp>(op))
      return 2;
    if (auto sgd = dyn_cast<graph::SgdUpdateOp>(op))
      return sgd.getMomentumBuffer() ? 3 : 2;
    return op->getNumOperands();
  }

  void divide(Operation *op, const FlatForm &form) {
    IRMapping mapping;
    for (Value operand : op->getOperands().take_front(dividedOperands(op)))
      mapping.map(operand, partOf(operand, form));
    Operation *clone = builder.clone(*op, mapping);
    for (auto [before, after] : llvm::zip_equal(op->getResults(), clone->getResults())) {
      after.setType(form.partType(getElementTypeOrSelf(after)));
      setPart(before, after, form);
    }
    replaced.push_back(op);
  }

  /// Sums of squares go down to one number in two steps. The first one's stand-in is the number.
  LogicalResult visitReduction(graph::ReduceOp op, const FlatForm &form) {
    bool isFirst = !totals.contains(op.getInput());
    bool isWhole = graph::shapeOf(op.getResult()).empty();
    if (op.getKind() != graph::ReduceKind::Sum)
      return op.emitOpError("can't be divided with its parameter's update");
    Value total =
        isFirst ? form.sum(builder, partOf(op.getInput(), form)) : totals.lookup(op.getInput());
    replaced.push_back(op);
    if (!isWhole) {
      forms[op.getResult()] = &form;
      totals[op.getResult()] = total;
      return success();
    }
    op.getResult().replaceAllUsesWith(total);
    pendingScalars[total] = form.getAxes();
    scalarForm = &form;
    return success();
  }

  //===--- numbers that are pending over the axes of parts ----------------===//

  LogicalResult visitScalar(Operation *op) {
    if (auto sum = dyn_cast<graph::SumOp>(op)) {
      addScalars(sum);
      return success();
    }
    if (isa<arith::ExtFOp>(op)) {
      pendingScalars[op->getResult(0)] = pendingScalars.lookup(op->getOperand(0));
      return success();
    }
    auto reduce = dyn_cast<dist::AllReduceOp>(op);
    if (reduce && reduce.getInputs().size() == 1 && reduce.getKind() == graph::ReduceKind::Sum) {
      AxisList axes = stored.axesOf(reduce.getAxes());
      llvm::append_range(axes, pendingScalars.lookup(op->getOperand(0)));
      llvm::sort(axes);
      Value total = scalarForm->allReduce(builder, op->getOperand(0), axes);
      op->getResult(0).replaceAllUsesWith(total);
      op->erase();
      return success();
    }
    for (OpOperand &operand : op->getOpOperands())
      operand.set(complete(operand.get()));
    return success();
  }

  Value complete(Value scalar) {
    auto pending = pendingScalars.find(scalar);
    return pending == pendingScalars.end()
               ? scalar
               : scalarForm->allReduce(builder, scalar, pending->second);
  }

  /// Terms that are pending alike are added first, so that they take one reduction.
  void addScalars(graph::SumOp op) {
    llvm::MapVector<ArrayRef<AxisId>, SmallVector<Value>> groups;
    for (Value input : op.getInputs()) {
      auto pending = pendingScalars.find(input);
      groups[pending == pendingScalars.end() ? ArrayRef<AxisId>()
                                             : ArrayRef<AxisId>(pending->second)]
          .push_back(input);
    }
    if (groups.size() == 1) {
      AxisList pending(groups.front().first);
      pendingScalars[op.getResult()] = pending;
      return;
    }
    SmallVector<Value> terms;
    for (auto &[pending, values] : groups) {
      Value total = values.size() == 1
                        ? values.front()
                        : graph::SumOp::create(builder, op.getLoc(), op.getType(), values);
      AxisList axes(pending);
      terms.push_back(axes.empty() ? total : scalarForm->allReduce(builder, total, axes));
    }
    op->setOperands(terms);
  }

  //===--- results --------------------------------------------------------===//

  LogicalResult returnResults() {
    Operation *terminator = block.getTerminator();
    builder.setInsertionPoint(terminator);
    for (OpOperand &operand : terminator->getOpOperands()) {
      unsigned index = operand.getOperandNumber();
      Value value = operand.get();
      if (pendingScalars.contains(value)) {
        operand.set(complete(value));
        continue;
      }
      const FlatForm *form = forms.lookup(value);
      if (!form)
        continue;
      if (stored.storedAs(graph::getResultRole(func, index))) {
        operand.set(partOf(value, *form));
        stored.setResult(index, *form, {});
      } else if (Value part = parts.lookup(value)) {
        operand.set(gathered(part, *form));
      }
    }
    return success();
  }

  /// As soon as the part is there, which then need not be kept.
  Value gathered(Value part, const FlatForm &form) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(part);
    return form.gather(builder, part);
  }

  StoredFunction &stored;
  func::FuncOp func;
  Block &block;
  OpBuilder builder;
  DenseMap<Value, const FlatForm *> forms;  ///< of whole values that are about one parameter
  DenseMap<Value, const FlatForm *> wholes; ///< of values around a sum with another mesh
  DenseMap<Value, Value> parts;            ///< of these
  DenseMap<Value, Value> totals;           ///< sums over all elements, of those over some
  DenseMap<Value, AxisList> pendingScalars;
  const FlatForm *scalarForm = nullptr; ///< of any parameter
  SmallVector<Operation *> replaced;
};

} // namespace

LogicalResult rewriteStoredUpdate(StoredFunction &stored) {
  return StoredUpdateRewriter(stored).run();
}

} // namespace dtc::partition
