#include "Localizer.h"

#include "Ring.h"
#include "Zigzag.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace dtc::sharding;

namespace dtc::partition {

LogicalResult Localizer::run() {
  if (!func.getBody().hasOneBlock())
    return func.emitOpError("must have one block to be partitioned");
  Block *old = &func.getBody().front();
  Block *block = func.addBlock();
  OpBuilder builder = OpBuilder::atBlockEnd(block);
  shards.reserve(2 * old->getOperations().size() + old->getNumArguments());
  if (failed(addArguments(builder)) || failed(resolveArguments(builder)))
    return failure();
  auto terminator = dyn_cast<func::ReturnOp>(old->getTerminator());
  if (!terminator)
    return func.emitOpError("must end in a return to be partitioned");
  for (Operation &op : llvm::make_early_inc_range(old->without_terminator()))
    if (failed(localize(builder, &op, /*allowRounds=*/false)))
      return failure();
  if (failed(localizeReturn(builder, terminator)))
    return failure();
  old->dropAllDefinedValueUses();
  old->erase();
  auto choice = builder.getStringAttr(dist::DistDialect::kOp);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block))) {
    op.removeDiscardableAttr(choice);
    if (isOpTriviallyDead(&op))
      op.erase();
  }
  func->setAttr(dist::DistDialect::kLocal, builder.getUnitAttr());
  return success();
}

static bool hasTensors(Operation *op) {
  return llvm::any_of(op->getOperandTypes(), llvm::IsaPred<ShapedType>) ||
         llvm::any_of(op->getResultTypes(), llvm::IsaPred<ShapedType>);
}

LogicalResult Localizer::localize(OpBuilder &builder, Operation *op, bool allowRounds) {
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled && !hasTensors(op) && op->getNumRegions() == 0) {
    IRMapping mapping;
    for (Value operand : op->getOperands())
      mapping.map(operand, scalars.lookup(operand));
    Operation *clone = builder.clone(*op, mapping);
    for (auto [before, after] : llvm::zip_equal(op->getResults(), clone->getResults()))
      scalars[before] = after;
    return success();
  }
  if (!ruled || !llvm::all_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>))
    return op->emitOpError("has no sharding rule and cannot be partitioned");

  if (auto sum = dyn_cast<graph::SumOp>(op))
    for (Value input : sum.getInputs())
      if (BlockArgument argument = accumulators.lookup(input))
        return buildAccumulation(builder, sum, argument);

  FailureOr<OpClass *> alike = forms.classOf(op);
  if (failed(alike))
    return failure();
  const OpForm &form = choose(op, **alike, allowRounds);
  if (auto sum = dyn_cast<graph::SumOp>(op))
    return buildSum(builder, sum, *form.results[0]);
  return form.rounds ? buildDecomposed(builder, op, form)
                     : build(builder, op, (*alike)->rule, form);
}

/// The op's own choice, or the one that follows its operands.
const OpForm &Localizer::choose(Operation *op, OpClass &alike, bool allowRounds) {
  if (!alike.given)
    return followOperands(op, alike, allowRounds);
  if (alike.given->pending.empty())
    return forms.formOf(alike, op, *alike.given);
  OpSharding choice = *alike.given;
  // A sum that is resolved already is as good as a pending one.
  llvm::erase_if(choice.pending, [&](const OpSharding::Pending &pending) {
    return !llvm::all_of(alike.rule.linear[pending.linearSet], [&](int operand) {
      return isPendingSum(op->getOperand(operand), pending.axis);
    });
  });
  return forms.formOf(alike, op, choice);
}

const OpForm &Localizer::followOperands(Operation *op, OpClass &alike, bool allowRounds) {
  SmallVector<const Sharding *, 4> given; // null: no tensor
  for (Value operand : op->getOperands())
    given.push_back(isa<RankedTensorType>(operand.getType()) ? current(operand).sharding
                                                             : nullptr);
  for (const OpClass::Followed &known : alike.followed)
    if (known.allowRounds == allowRounds && known.operands == given)
      return *known.form;
  std::vector<TensorSharding> operands;
  std::vector<int64_t> bytes;
  for (auto [type, sharding] : llvm::zip_equal(op->getOperandTypes(), given)) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    operands.push_back(sharding ? *sharding : TensorSharding());
    bytes.push_back(tensor ? tensor.getNumElements() * elementBytes(tensor) : 0);
  }
  const OpForm &form =
      forms.formOf(alike, op, follow(alike.rule, operands, bytes, mesh.mesh, allowRounds));
  alike.followed.push_back({std::move(given), allowRounds, &form});
  return form;
}

LogicalResult Localizer::build(OpBuilder &builder, Operation *op, const ShardingRule &rule,
                               const OpForm &form) {
  SmallVector<Value> operands;
  for (auto [operand, sharding] : llvm::zip_equal(op->getOperands(), form.operands)) {
    if (!isa<RankedTensorType>(operand.getType())) {
      operands.push_back(scalars.lookup(operand));
      continue;
    }
    FailureOr<Value> local = fetch(builder, operand, *sharding, op);
    if (failed(local))
      return failure();
    operands.push_back(*local);
  }
  if (failed(checkZigzag(op, rule, form.choice, mesh)))
    return failure();
  FailureOr<SmallVector<Value>> results =
      form.ring ? buildRing(builder, op, operands, mesh, form.ring->axes)
                : ShardBuilder(op, rule, form.choice, mesh).build(builder, operands, form.types);
  if (failed(results)) // a ring has said why
    return form.ring ? LogicalResult::failure() : op->emitOpError("cannot be built on shards");
  for (auto [i, result, local] : llvm::enumerate(op->getResults(), *results)) {
    if (local.getType() != form.types[i])
      return op->emitOpError("was built on shards with result type ")
             << local.getType() << ", its rule wants: " << form.types[i];
    define(result, form.results[i], local);
  }
  return success();
}

/// Takes an op apart whose rounds factor is split. The parts are built after
/// stand-ins for the operands, which are there only in the form chosen.
LogicalResult Localizer::buildDecomposed(OpBuilder &builder, Operation *op,
                                         const OpForm &form) {
  auto decomposable = dyn_cast<DecomposableOpInterface>(op);
  if (!decomposable)
    return op->emitOpError("cannot be split along a dimension that it reduces inside");
  OpBuilder old(op);
  for (auto [i, operand] : llvm::enumerate(op->getOpOperands())) {
    Value value = operand.get();
    FailureOr<Value> local = fetch(builder, value, *form.operands[i], op);
    if (failed(local))
      return failure();
    auto standIn =
        UnrealizedConversionCastOp::create(old, value.getLoc(), value.getType(), value);
    define(standIn.getResult(0), form.operands[i], *local);
    operand.set(standIn.getResult(0));
  }
  Operation *before = op->getPrevNode();
  FailureOr<SmallVector<Value>> results = decomposable.decompose(old);
  if (failed(results))
    return op->emitOpError("cannot be decomposed");
  for (Operation *part = before ? before->getNextNode() : &op->getBlock()->front(); part != op;
       part = part->getNextNode())
    if (failed(localize(builder, part, /*allowRounds=*/true)))
      return failure();
  for (auto [i, result, value] : llvm::enumerate(op->getResults(), *results)) {
    TensorSharding wanted = *form.results[i];
    llvm::erase_if(wanted.partial, [&, value = value](const Partial &partial) {
      return !isPendingSum(value, partial.axis);
    });
    FailureOr<Value> local = fetch(builder, value, wanted, op);
    if (failed(local))
      return failure();
    define(result, pool.keep(wanted), *local);
  }
  return success();
}

} // namespace dtc::partition
