#include "Localizer.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace dtc::sharding;

namespace dtc::partition {

void dropTrivialAxes(AxisList &axes, const Mesh &mesh) {
  llvm::erase_if(axes, [&](AxisId axis) { return mesh.axes[axis].size == 1; });
}

void dropTrivialAxes(TensorSharding &sharding, const Mesh &mesh) {
  for (AxisList &axes : sharding.dims)
    dropTrivialAxes(axes, mesh);
  llvm::erase_if(sharding.partial,
                 [&](const Partial &p) { return mesh.axes[p.axis].size == 1; });
}

LogicalResult Localizer::run() {
  if (!func.getBody().hasOneBlock())
    return func.emitOpError("must have one block to be partitioned");
  Block *old = &func.getBody().front();
  Block *block = func.addBlock();
  OpBuilder builder = OpBuilder::atBlockEnd(block);
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
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block))) {
    op.removeAttr(dist::DistDialect::kOp);
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

  ShardingRule rule = ruled.getShardingRule();
  FailureOr<OpSharding> choice = choose(op, rule, allowRounds);
  if (failed(choice))
    return failure();
  if (auto sum = dyn_cast<graph::SumOp>(op))
    return buildSum(builder, sum, resultSharding(rule, *choice, 0));
  if (needsRounds(rule, *choice))
    return buildDecomposed(builder, op, rule, *choice);
  return build(builder, op, rule, *choice);
}

/// The op's own choice, or the one that follows its operands.
FailureOr<OpSharding> Localizer::choose(Operation *op, const ShardingRule &rule,
                                        bool allowRounds) {
  if (auto attr = op->getAttrOfType<dist::OpShardingAttr>(dist::DistDialect::kOp)) {
    std::optional<OpSharding> choice = dist::toOpSharding(attr, mesh.mesh);
    if (!choice)
      return op->emitOpError("sharding names an axis that the mesh lacks: ") << attr;
    if (std::string error = check(rule, *choice, mesh.mesh); !error.empty())
      return op->emitOpError(error) << ": " << attr;
    for (AxisList &axes : choice->factors)
      dropTrivialAxes(axes, mesh.mesh);
    // A sum that is resolved already is as good as a pending one.
    llvm::erase_if(choice->pending, [&](const OpSharding::Pending &pending) {
      return !llvm::all_of(rule.linear[pending.linearSet], [&](int operand) {
        return isPendingSum(op->getOperand(operand), pending.axis);
      });
    });
    return *choice;
  }
  std::vector<TensorSharding> operands;
  std::vector<int64_t> bytes;
  for (Value operand : op->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    operands.push_back(type ? current(operand).sharding : TensorSharding());
    bytes.push_back(type ? type.getNumElements() * elementBytes(type) : 0);
  }
  return follow(rule, operands, bytes, mesh.mesh, allowRounds);
}

Value Localizer::factorOffset(OpBuilder &builder, Location loc, const ShardingRule &rule,
                              const OpSharding &choice, FactorId factor) {
  const AxisList &axes = choice.factors[factor];
  if (axes.empty())
    return {};
  auto type = RankedTensorType::get({}, builder.getI64Type());
  int64_t size = rule.factors[factor].size / mesh.mesh.size(axes);
  Value index = dist::AxisIndexOp::create(
      builder, loc, type, mesh.name, dist::toAttr(builder.getContext(), axes, mesh.mesh));
  Value scale = arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, size));
  return arith::MulIOp::create(builder, loc, index, scale);
}

LogicalResult Localizer::build(OpBuilder &builder, Operation *op, const ShardingRule &rule,
                               const OpSharding &choice) {
  SmallVector<Value> operands;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (!isa<RankedTensorType>(operand.getType())) {
      operands.push_back(scalars.lookup(operand));
      continue;
    }
    FailureOr<Value> local = fetch(builder, operand, operandSharding(rule, choice, i), op);
    if (failed(local))
      return failure();
    operands.push_back(*local);
  }
  SmallVector<Type> types;
  for (auto [i, type] : llvm::enumerate(op->getResultTypes()))
    types.push_back(
        localType(cast<RankedTensorType>(type), resultSharding(rule, choice, i), mesh.mesh));
  LocalContext context{rule, choice, mesh.mesh, [&](OpBuilder &b, FactorId factor) {
                         return factorOffset(b, op->getLoc(), rule, choice, factor);
                       }};
  FailureOr<SmallVector<Value>> results =
      cast<ShardingRuleOpInterface>(op).buildLocal(builder, operands, types, context);
  if (failed(results))
    return op->emitOpError("cannot be built on shards");
  for (auto [i, result, local] : llvm::enumerate(op->getResults(), *results)) {
    if (local.getType() != types[i])
      return op->emitOpError("was built on shards with result type ")
             << local.getType() << ", its rule wants: " << types[i];
    define(result, resultSharding(rule, choice, i), local);
  }
  return success();
}

/// Takes an op apart whose rounds factor is split. The parts are built after
/// stand-ins for the operands, which are there only in the form chosen.
LogicalResult Localizer::buildDecomposed(OpBuilder &builder, Operation *op,
                                         const ShardingRule &rule, const OpSharding &choice) {
  auto decomposable = dyn_cast<DecomposableOpInterface>(op);
  if (!decomposable)
    return op->emitOpError("cannot be split along a dimension that it reduces inside");
  OpBuilder old(op);
  for (auto [i, operand] : llvm::enumerate(op->getOpOperands())) {
    Value value = operand.get();
    FailureOr<Value> local = fetch(builder, value, operandSharding(rule, choice, i), op);
    if (failed(local))
      return failure();
    auto standIn =
        UnrealizedConversionCastOp::create(old, value.getLoc(), value.getType(), value);
    define(standIn.getResult(0), operandSharding(rule, choice, i), *local);
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
    TensorSharding wanted = resultSharding(rule, choice, i);
    llvm::erase_if(wanted.partial, [&, value = value](const Partial &partial) {
      return !isPendingSum(value, partial.axis);
    });
    FailureOr<Value> local = fetch(builder, value, wanted, op);
    if (failed(local))
      return failure();
    define(result, wanted, *local);
  }
  return success();
}

} // namespace dtc::partition
