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

//===-- bucket_indices ----------------------------------------------------===//

/// Of buckets in a tensor of this shape, the indices of a part.
static int64_t partOf(ArrayRef<int64_t> shape, int64_t rows, int64_t bucketRows) {
  return shape.back() - llvm::divideCeil(rows, bucketRows) - 1;
}

static LogicalResult verifyBuckets(Operation *op, Value value, Value indices, int64_t rows,
                                   int64_t bucketRows) {
  ArrayRef<int64_t> shape = shapeOf(value);
  Type i32 = IntegerType::get(op->getContext(), 32);
  if (rows < 1 || bucketRows < 1)
    return op->emitOpError() << "buckets need rows: " << std::min(rows, bucketRows);
  if (failed(verifyElementType(op, value, i32, "buckets")) ||
      failed(verifyRank(op, value, 2, "buckets")))
    return failure();
  int64_t part = partOf(shape, rows, bucketRows),
          count = cast<ShapedType>(indices.getType()).getNumElements();
  if (part < 1 || shape.front() != llvm::divideCeil(count, part))
    return op->emitOpError() << "buckets need parts that have all of " << count
                             << " indices: " << shape.front() << " of " << part;
  if (bucketRows > std::numeric_limits<int32_t>::max() / part)
    return op->emitOpError()
           << "rows of a bucket, times the indices of a part, must be below 2^31: " << bucketRows
           << " * " << part;
  return success();
}

int64_t BucketIndicesOp::getBuckets() {
  return llvm::divideCeil(static_cast<int64_t>(getRows()), static_cast<int64_t>(getBucketRows()));
}
int64_t BucketIndicesOp::getPart() {
  return partOf(shapeOf(getResult()), getRows(), getBucketRows());
}

LogicalResult BucketIndicesOp::verify() {
  return failure(
      failed(verifyIndices(*this, getIndices(), "indices")) ||
      failed(verifyBuckets(*this, getResult(), getIndices(), getRows(), getBucketRows())));
}

ShardingRule BucketIndicesOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<FactorId> indices = rule.factors(shapeOf(getIndices()), FactorKind::Whole),
                        buckets = rule.factors(shapeOf(getResult()), FactorKind::Whole);
  return rule.operand(0, indices).result(0, buckets).build();
}

OpCost BucketIndicesOp::getCost() { return {OpKind::Other}; }

//===-- scatter_add -------------------------------------------------------===//

LogicalResult ScatterAddOp::verify() {
  ArrayRef<int64_t> table = shapeOf(getResult());
  if (failed(verifyIndices(*this, getIndices(), "indices")) ||
      failed(verifySameOrWider(*this, getResult(), getUpdates(), "result")) ||
      failed(verifyDim(*this, getAxis(), table.size(), "axis")))
    return failure();
  if (getBuckets() && !getBucketRows())
    return emitOpError() << "buckets need their number of rows";
  if (getBuckets() &&
      failed(verifyBuckets(*this, getBuckets(), getIndices(), table[getAxis()], *getBucketRows())))
    return failure();
  return verifyShape(*this, getUpdates(), gatheredShape(table, shapeOf(getIndices()), getAxis()),
                     "updates");
}

void ScatterAddOp::build(OpBuilder &builder, OperationState &state, Type result, Value indices,
                         Value updates, int64_t axis) {
  build(builder, state, result, indices, updates, axis, /*buckets=*/Value(),
        /*bucketRows=*/IntegerAttr());
}

ShardingRule ScatterAddOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  GatherFactors dims = gatherFactors(rule, shapeOf(getResult()), shapeOf(getIndices()), getAxis(),
                                     FactorKind::Parallel, FactorKind::Reduction);
  if (getBuckets())
    rule.operand(2, rule.factors(shapeOf(getBuckets()), FactorKind::Whole));
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
  return operand == 0 ? Reach::Repeated : operand == 1 ? Reach::Same : Reach::LookedUp;
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
