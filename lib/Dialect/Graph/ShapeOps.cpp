#include "Rules.h"
#include "Verify.h"

using namespace mlir;
using namespace dtc;
using namespace dtc::graph;

//===-- iota --------------------------------------------------------------===//

LogicalResult IotaOp::verify() {
  Type type = getElementTypeOrSelf(getResult());
  if (!isa<FloatType>(type) && !(type.isSignlessInteger() && !type.isInteger(1)))
    return emitOpError() << "result must hold floats or integers wider than i1: " << type;
  return verifyDim(*this, getDim(), shapeOf(getResult()).size(), "dimension");
}

ShardingRule IotaOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  rule.result(0, rule.factors(shapeOf(getResult())));
  return rule.build();
}

/// Counts in i64 and converts at the end: a bf16 sum of index and offset would
/// round twice.
FailureOr<SmallVector<Value>> IotaOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                 TypeRange resultTypes,
                                                 const LocalContext &context) {
  Value offset = shardOffset(builder, context, context.rule.results[0], getDim());
  if (!offset)
    return cloneLocal(*this, builder, operands, resultTypes);
  auto type = cast<RankedTensorType>(resultTypes[0]);
  auto wide = type.clone(builder.getI64Type());
  Value local = IotaOp::create(builder, getLoc(), wide, getDim());
  Value spread = BroadcastOp::create(builder, getLoc(), wide, offset, ArrayRef<int64_t>());
  Value value = arith::AddIOp::create(builder, getLoc(), local, spread);
  if (isa<FloatType>(type.getElementType()))
    value = arith::SIToFPOp::create(builder, getLoc(), type, value);
  else if (type != wide && type.getElementTypeBitWidth() < 64)
    value = arith::TruncIOp::create(builder, getLoc(), type, value);
  return SmallVector<Value>{value};
}

OpCost IotaOp::getCost() { return {OpKind::Reindex}; }

//===-- broadcast ---------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getInput()), to = shapeOf(getResult()), dims = getDims();
  if (failed(verifySameElementType(*this, getResult(), getInput(), "result")) ||
      failed(verifyLength(*this, dims, from.size(), "dims")))
    return failure();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (failed(verifyDim(*this, dims[i], to.size(), "result dimension")))
      return failure();
    if (i > 0 && dims[i] <= dims[i - 1])
      return emitOpError() << "dims must ascend: " << dims[i];
    if (from[i] != to[dims[i]])
      return emitOpError() << "operand dimension " << i << " must keep its size " << from[i]
                           << ": " << to[dims[i]];
  }
  return success();
}

ShardingRule BroadcastOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<FactorId> dims = rule.factors(shapeOf(getResult()));
  rule.result(0, dims);
  for (int64_t dim : getDims())
    rule.operand(0, dims[dim]);
  return rule.linear({0}).build();
}

OpCost BroadcastOp::getCost() { return {OpKind::Reindex}; }

/// Whether what isn't of size 1 are the first dimensions of the result.
static bool isPrefix(BroadcastOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  SmallVector<int64_t> kept;
  for (int64_t dim : op.getDims())
    if (shape[dim] != 1)
      kept.push_back(dim);
  for (int64_t dim = 0; dim < static_cast<int64_t>(shape.size()) && !kept.empty(); ++dim) {
    if (shape[dim] == 1)
      continue;
    if (kept.front() != dim)
      return false;
    kept.erase(kept.begin());
  }
  return true;
}

Reach BroadcastOp::getReach(unsigned) {
  if (getInput().getType().getNumElements() == getResult().getType().getNumElements())
    return Reach::Same;
  return isPrefix(*this) ? Reach::Rows : Reach::Repeated;
}

//===-- reshape -----------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  if (failed(verifySameElementType(*this, getResult(), getInput(), "result")))
    return failure();
  int64_t elements = getInput().getType().getNumElements();
  if (getResult().getType().getNumElements() != elements)
    return emitOpError() << "result must have " << elements
                         << " elements: " << getResult().getType().getNumElements();
  return success();
}

ShardingRule BarrierOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<FactorId> dims = rule.factors(shapeOf(getResult()));
  return rule.operand(0, dims).result(0, dims).linear({0}).build();
}

OpCost BarrierOp::getCost() { return {OpKind::View}; }

/// Of units nothing can be told here: they may come and go anywhere.
ShardingRule ReshapeOp::buildShardingRule(UnitFactors) {
  ArrayRef<int64_t> from = shapeOf(getInput()), to = shapeOf(getResult());
  ShardingRule rule = RuleBuilder::reshape(from.vec(), to.vec());
  rule.linear = {{0}};
  return rule;
}

OpCost ReshapeOp::getCost() { return {OpKind::View}; }

//===-- transpose ---------------------------------------------------------===//

LogicalResult TransposeOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getInput()), perm = getPerm();
  if (failed(verifySameElementType(*this, getResult(), getInput(), "result")) ||
      failed(verifyLength(*this, perm, from.size(), "perm")))
    return failure();
  SmallVector<bool> seen(from.size());
  Shape shape;
  for (int64_t dim : perm) {
    if (failed(verifyDim(*this, dim, from.size(), "perm entry")))
      return failure();
    if (std::exchange(seen[dim], true))
      return emitOpError() << "perm must not repeat a dimension: " << dim;
    shape.push_back(from[dim]);
  }
  return verifyShape(*this, getResult(), shape, "result");
}

ShardingRule TransposeOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SmallVector<FactorId> dims = rule.factors(shapeOf(getInput()));
  rule.operand(0, dims);
  for (int64_t dim : getPerm())
    rule.result(0, dims[dim]);
  return rule.linear({0}).build();
}

OpCost TransposeOp::getCost() { return {OpKind::Reindex}; }

/// Elements stay where they are if only dimensions of size 1 change places.
Reach TransposeOp::getReach(unsigned) {
  ArrayRef<int64_t> shape = shapeOf(getInput());
  int64_t last = -1;
  for (int64_t dim : getPerm()) {
    if (shape[dim] == 1)
      continue;
    if (dim < last)
      return Reach::Moved;
    last = dim;
  }
  return Reach::Same;
}

//===-- slice -------------------------------------------------------------===//

LogicalResult SliceOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getInput()), to = shapeOf(getResult());
  if (failed(verifySameElementType(*this, getResult(), getInput(), "result")) ||
      failed(verifyRank(*this, getResult(), from.size(), "result")) ||
      failed(verifyLength(*this, getOffsets(), from.size(), "offsets")) ||
      failed(verifyLength(*this, getStrides(), from.size(), "strides")) ||
      failed(verifyEachAtLeast(*this, getOffsets(), 0, "offsets")) ||
      failed(verifyEachAtLeast(*this, getStrides(), 1, "strides")))
    return failure();
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t offset = getOffsets()[i], room = from[i] - offset;
    // Divided, not multiplied: a hostile stride must not overflow.
    if (to[i] > 0 && (room <= 0 || to[i] - 1 > (room - 1) / getStrides()[i]))
      return emitOpError() << "reads beyond the end of dimension " << i << " of size " << from[i]
                           << ": " << to[i] << " elements from " << offset;
  }
  return success();
}

static bool keepsDim(SliceOp op, size_t i) {
  return op.getOffsets()[i] == 0 && op.getStrides()[i] == 1 &&
         shapeOf(op.getInput())[i] == shapeOf(op.getResult())[i];
}

ShardingRule SliceOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  for (size_t i = 0; i < shapeOf(getInput()).size(); ++i) {
    bool kept = keepsDim(*this, i);
    FactorKind kind = kept ? FactorKind::Parallel : FactorKind::Whole;
    FactorId in = rule.factor(shapeOf(getInput())[i], kind);
    rule.operand(0, in);
    rule.result(0, kept ? in : rule.factor(shapeOf(getResult())[i], kind));
  }
  return rule.linear({0}).build();
}

/// Dimensions that are split are taken whole, so their offset stays 0.
FailureOr<SmallVector<Value>> SliceOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                  TypeRange resultTypes, const LocalContext &) {
  return cloneLocal(*this, builder, operands, resultTypes);
}

OpCost SliceOp::getCost() { return {OpKind::Reindex}; }

//===-- pad ---------------------------------------------------------------===//

LogicalResult PadOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getInput()), to = shapeOf(getResult());
  if (failed(verifySameElementType(*this, getResult(), getInput(), "result")) ||
      failed(verifyRank(*this, getResult(), from.size(), "result")) ||
      failed(verifyLength(*this, getLow(), from.size(), "low")) ||
      failed(verifyLength(*this, getInterior(), from.size(), "interior")) ||
      failed(verifyEachAtLeast(*this, getLow(), 0, "low")) ||
      failed(verifyEachAtLeast(*this, getInterior(), 0, "interior")))
    return failure();
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t low = getLow()[i], room = to[i] - low, interior = getInterior()[i];
    if (from[i] == 0)
      continue;
    if (room <= 0 || interior > to[i] || from[i] - 1 > (room - 1) / (interior + 1))
      return emitOpError() << "writes beyond the end of dimension " << i << " of size " << to[i]
                           << ": " << from[i] << " elements from " << low;
  }
  return success();
}

ShardingRule PadOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  ArrayRef<int64_t> from = shapeOf(getInput()), to = shapeOf(getResult());
  for (size_t i = 0; i < from.size(); ++i) {
    bool kept = from[i] == to[i];
    FactorKind kind = kept ? FactorKind::Parallel : FactorKind::Whole;
    FactorId in = rule.factor(from[i], kind);
    rule.operand(0, in);
    rule.result(0, kept ? in : rule.factor(to[i], kind));
  }
  if (getValue().isZero())
    rule.linear({0});
  return rule.build();
}

FailureOr<SmallVector<Value>> PadOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                TypeRange resultTypes, const LocalContext &) {
  return cloneLocal(*this, builder, operands, resultTypes);
}

OpCost PadOp::getCost() { return {OpKind::Join}; }

//===-- concat ------------------------------------------------------------===//

LogicalResult ConcatOp::verify() {
  if (getInputs().empty())
    return emitOpError() << "needs operands: 0";
  ArrayRef<int64_t> to = shapeOf(getResult());
  if (failed(verifyDim(*this, getDim(), to.size(), "dimension")))
    return failure();
  Shape shape(to);
  shape[getDim()] = 0;
  for (Value input : getInputs()) {
    if (failed(verifySameElementType(*this, input, getResult(), "operand")) ||
        failed(verifyRank(*this, input, to.size(), "operand")))
      return failure();
    Shape expected(to);
    expected[getDim()] = shapeOf(input)[getDim()];
    if (failed(verifyShape(*this, input, expected, "operand")))
      return failure();
    shape[getDim()] += expected[getDim()];
  }
  return verifyShape(*this, getResult(), shape, "result");
}

ShardingRule ConcatOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  ArrayRef<int64_t> to = shapeOf(getResult());
  std::vector<int> all;
  SmallVector<FactorId> dims;
  for (size_t i = 0; i < to.size(); ++i)
    dims.push_back(rule.factor(to[i], i == getDim() ? FactorKind::Whole : FactorKind::Parallel));
  rule.result(0, dims);
  for (auto [number, input] : llvm::enumerate(getInputs())) {
    all.push_back(number);
    SmallVector<FactorId> own = dims;
    own[getDim()] = rule.factor(shapeOf(input)[getDim()], FactorKind::Whole);
    rule.operand(number, own);
  }
  return rule.linear(all).build();
}

FailureOr<SmallVector<Value>> ConcatOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                   TypeRange resultTypes, const LocalContext &) {
  return cloneLocal(*this, builder, operands, resultTypes);
}

OpCost ConcatOp::getCost() { return {OpKind::Join}; }
