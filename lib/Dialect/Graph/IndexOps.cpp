#include "Rules.h"
#include "Verify.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::graph;

/// `table` with dimension `axis` replaced by the dimensions of `indices`.
static Shape gatheredShape(ArrayRef<int64_t> table, ArrayRef<int64_t> indices, int64_t axis) {
  Shape shape(table.take_front(axis));
  llvm::append_range(shape, indices);
  llvm::append_range(shape, table.drop_front(axis + 1));
  return shape;
}

namespace {
/// The factors of gather; those of scatter_add are the same with table and result
/// exchanged.
struct GatherFactors {
  SmallVector<FactorId> table, indices, gathered;
};
} // namespace

static GatherFactors gatherFactors(OpRule &rule, ArrayRef<int64_t> table,
                                   ArrayRef<int64_t> indices, int64_t axis, FactorKind rowsKind,
                                   FactorKind indicesKind) {
  GatherFactors dims;
  for (auto [i, size] : llvm::enumerate(table))
    dims.table.push_back(rule.factor(size, static_cast<int64_t>(i) == axis ? rowsKind
                                                                           : FactorKind::Parallel));
  dims.indices = rule.factors(indices, indicesKind);
  ArrayRef<FactorId> all = dims.table;
  llvm::append_range(dims.gathered, all.take_front(axis));
  llvm::append_range(dims.gathered, dims.indices);
  llvm::append_range(dims.gathered, all.drop_front(axis + 1));
  return dims;
}

//===-- gather ------------------------------------------------------------===//

LogicalResult GatherOp::verify() {
  ArrayRef<int64_t> table = shapeOf(getTable());
  if (failed(verifyIndices(*this, getIndices(), "indices")) ||
      failed(verifySameElementType(*this, getResult(), getTable(), "result")) ||
      failed(verifyDim(*this, getAxis(), table.size(), "axis")))
    return failure();
  if (auto row = getPaddingRow(); row && *row >= uint64_t(table[getAxis()]))
    return emitOpError() << "padding row is outside the table's " << table[getAxis()]
                         << " rows: " << static_cast<int64_t>(*row);
  return verifyShape(*this, getResult(), gatheredShape(table, shapeOf(getIndices()), getAxis()),
                     "result");
}

ShardingRule GatherOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  GatherFactors dims = gatherFactors(rule, shapeOf(getTable()), shapeOf(getIndices()), getAxis(),
                                     FactorKind::Reduction, FactorKind::Parallel);
  return rule.operand(0, dims.table).operand(1, dims.indices).result(0, dims.gathered)
      .linear({0}).build();
}

FailureOr<SmallVector<Value>> GatherOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                   TypeRange resultTypes,
                                                   const LocalContext &context) {
  SmallVector<Value> shifted(operands);
  if (Value offset = shardOffset(builder, context, context.rule.operands[0], getAxis()))
    shifted[1] = shiftIndices(builder, getLoc(), operands[1], offset);
  return cloneLocal(*this, builder, shifted, resultTypes);
}

OpCost GatherOp::getCost() { return {OpKind::Lookup}; }
/// Of the table a row that depends on values; of the indices one for each slice.
Reach GatherOp::getReach(unsigned operand) {
  return operand == 0 ? Reach::LookedUp : Reach::Repeated;
}

//===-- scatter_add -------------------------------------------------------===//

LogicalResult ScatterAddOp::verify() {
  ArrayRef<int64_t> table = shapeOf(getResult());
  if (failed(verifyIndices(*this, getIndices(), "indices")) ||
      failed(verifySameOrWider(*this, getResult(), getUpdates(), "result")) ||
      failed(verifyDim(*this, getAxis(), table.size(), "axis")))
    return failure();
  return verifyShape(*this, getUpdates(), gatheredShape(table, shapeOf(getIndices()), getAxis()),
                     "updates");
}

ShardingRule ScatterAddOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  GatherFactors dims = gatherFactors(rule, shapeOf(getResult()), shapeOf(getIndices()), getAxis(),
                                     FactorKind::Parallel, FactorKind::Reduction);
  return rule.operand(0, dims.indices).operand(1, dims.gathered).result(0, dims.table)
      .linear({1}).build();
}

FailureOr<SmallVector<Value>> ScatterAddOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                       TypeRange resultTypes,
                                                       const LocalContext &context) {
  SmallVector<Value> shifted(operands);
  if (Value offset = shardOffset(builder, context, context.rule.results[0], getAxis()))
    shifted[0] = shiftIndices(builder, getLoc(), operands[0], offset);
  return cloneLocal(*this, builder, shifted, resultTypes);
}

OpCost ScatterAddOp::getCost() { return {OpKind::Lookup}; }
Reach ScatterAddOp::getReach(unsigned operand) {
  return operand == 0 ? Reach::Repeated : Reach::Same;
}

//===-- pick --------------------------------------------------------------===//

LogicalResult PickOp::verify() {
  ArrayRef<int64_t> input = shapeOf(getInput());
  if (input.empty())
    return emitOpError() << "input must have a dimension to pick from: rank 0";
  if (failed(verifyIndices(*this, getIndices(), "indices")) ||
      failed(verifySameElementType(*this, getResult(), getInput(), "result")) ||
      failed(verifyShape(*this, getIndices(), input.drop_back(), "indices")))
    return failure();
  return verifyShape(*this, getResult(), input.drop_back(), "result");
}

ShardingRule PickOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  ArrayRef<int64_t> input = shapeOf(getInput());
  SmallVector<FactorId> rows = rule.factors(input.drop_back());
  FactorId last = rule.factor(input.back(), FactorKind::Reduction);
  return rule.operand(0, rows).operand(0, last).operand(1, rows).result(0, rows)
      .linear({0}).build();
}

FailureOr<SmallVector<Value>> PickOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                 TypeRange resultTypes,
                                                 const LocalContext &context) {
  SmallVector<Value> shifted(operands);
  int64_t last = shapeOf(getInput()).size() - 1;
  if (Value offset = shardOffset(builder, context, context.rule.operands[0], last))
    shifted[1] = shiftIndices(builder, getLoc(), operands[1], offset);
  return cloneLocal(*this, builder, shifted, resultTypes);
}

OpCost PickOp::getCost() { return {OpKind::Lookup}; }
