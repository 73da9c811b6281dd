#include "dtc/Dialect/Graph/SlotOps.h"
#include "Rules.h"
#include "SlotShape.h"
#include "Verify.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;

namespace dtc::graph {

/// Each token has a slot of its own in each part.
static LogicalResult verifyApart(Operation *op, std::optional<uint64_t> apart, int64_t rows,
                                 int64_t capacity) {
  auto ofToken = static_cast<int64_t>(apart.value_or(1));
  if (!apart || (ofToken > 0 && rows % ofToken == 0 && rows / ofToken == capacity))
    return success();
  return op->emitOpError() << "rows that choose different parts need a slot of each part: " << rows
                           << " rows, " << ofToken << " apart, and " << capacity << " slots";
}

//===-- expert_slots ------------------------------------------------------===//

LogicalResult ExpertSlotsOp::verify() {
  if (failed(verifyIndices(*this, getChoices(), "choices")) ||
      failed(verifyRank(*this, getChoices(), 2, "choices")))
    return failure();
  const int64_t experts = getExperts(), sections = getSections(), parts = getParts();
  if (parts < 1 || experts < 1 || experts % parts != 0)
    return emitOpError() << "must have the same number of experts in each part: " << experts
                         << " in " << parts;
  int64_t rows = shapeOf(getChoices())[1];
  if (sections < 1 || rows % sections != 0)
    return emitOpError() << "must have the same number of rows in each section: " << rows << " in "
                         << sections;
  if (static_cast<int64_t>(getCapacity()) < 1)
    return emitOpError() << "capacity must be at least 1: " << static_cast<int64_t>(getCapacity());
  const auto capacity = static_cast<int64_t>(getCapacity());
  const auto tile = static_cast<int64_t>(getTile().value_or(1));
  if (tile < 1 || capacity % tile != 0 || (getTile() && getApart()))
    return emitOpError() << "slots of a part must be whole tiles: " << capacity
                         << " slots, tiles of " << tile;
  // Rows give their numbers to slots in f32.
  constexpr int64_t exact = int64_t(1) << 24;
  if (getTile() && rows / sections >= exact)
    return emitOpError() << "a section has too many rows for tiles: " << rows / sections;
  return verifyApart(*this, getApart(), rows / sections, capacity);
}

ShardingRule ExpertSlotsOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  const int64_t sections = getSections();
  FactorId sample = rule.factor(shapeOf(getChoices())[0]);
  SmallVector<FactorId> rows = {
      rule.factor(sections), rule.factor(shapeOf(getChoices())[1] / sections, FactorKind::Whole)};
  rule.operand(0, sample).operandCompound(0, rows);
  return rule.result(0, sample).resultCompound(0, rows).build();
}

FailureOr<SmallVector<Value>> ExpertSlotsOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                        TypeRange resultTypes,
                                                        const LocalContext &context) {
  const int64_t rows = shapeOf(getChoices())[1], local = shapeOf(operands[0])[1];
  auto sections = static_cast<int64_t>(getSections());
  return SmallVector<Value>{ExpertSlotsOp::create(builder, getLoc(), resultTypes[0], operands[0],
                                                  getExperts(), sections * local / rows, getParts(),
                                                  getCapacity(), getApartAttr(), getTileAttr())};
}

/// Comparing two numbers of rows or slots takes as long as this many flops. It is a few integer
/// operations of 64 bits, which run on fewer units, and none of them is fused.
static constexpr double kFlopsOfPair = 16;

OpCost ExpertSlotsOp::getCost() {
  ArrayRef<int64_t> shape = shapeOf(getChoices());
  const auto rows = static_cast<double>(shape[1]);
  const int64_t inSection = shape[1] / static_cast<int64_t>(getSections());
  const bool isChunked = rowsTogether(inSection) < inSection;
  const auto numbers = static_cast<double>(getTile() ? getExperts() : getParts());
  const double counted = (isChunked ? numbers : 0) + (getTile() ? numbers : 0);
  const double compared = getApart() ? 1 : counted + static_cast<double>(rowsTogether(inSection));
  return {.kind = OpKind::Lookup,
          .flops = kFlopsOfPair * static_cast<double>(shape[0]) * rows * compared};
}

//===-- to_slots and from_slots -------------------------------------------===//

/// `inRows` is [sample, row, ...], `inSlots` [sample, (section,) part, slot, ...].
static LogicalResult verifyExchange(Operation *op, Value inRows, Value inSlots, Value slots,
                                    std::optional<uint64_t> apart) {
  ArrayRef<int64_t> rows = shapeOf(inRows), places = shapeOf(inSlots);
  if (rows.size() < 2 || (places.size() != rows.size() + 1 && places.size() != rows.size() + 2))
    return op->emitOpError() << "must be between [sample, row, ...] and [sample, part, slot, ...]: "
                             << inRows.getType() << " and " << inSlots.getType();
  if (failed(verifySameElementType(op, inSlots, inRows, "result")) ||
      failed(verifyIndices(op, slots, "slots")) ||
      failed(verifyShape(op, slots, rows.take_front(2), "slots")))
    return failure();
  SlotShape shape(inRows, inSlots);
  if (places[0] != rows[0] || places.take_back(rows.size() - 2) != rows.drop_front(2))
    return op->emitOpError() << "rows and slots must have the same samples and elements: "
                             << inRows.getType() << " and " << inSlots.getType();
  if (shape.sections < 1 || rows[1] % shape.sections != 0)
    return op->emitOpError() << "must have the same number of rows in each section: " << rows[1]
                             << " in " << shape.sections;
  return verifyApart(op, apart, shape.rows, shape.capacity);
}

LogicalResult ToSlotsOp::verify() {
  return verifyExchange(*this, getInput(), getResult(), getSlots(), getApart());
}
LogicalResult FromSlotsOp::verify() {
  return verifyExchange(*this, getResult(), getInput(), getSlots(), getApart());
}

namespace {
/// Rows of a section are seen whole, and so are the slots of a part.
struct SlotFactors {
  SlotFactors(OpRule &rule, Value inRows, Value inSlots, FactorKind ofParts) {
    SlotShape shape(inRows, inSlots);
    FactorId sample = rule.factor(shape.samples), section = rule.factor(shape.sections);
    rows = {{sample}, {section, rule.factor(shape.rows, FactorKind::Whole)}};
    slots = {{sample}};
    if (shape.hasSections)
      slots.push_back({section});
    slots.push_back({rule.factor(shape.parts, ofParts)});
    slots.push_back({rule.factor(shape.capacity, FactorKind::Whole)});
    index = rows;
    for (FactorId factor : rule.factors(shapeOf(inRows).drop_front(2))) {
      rows.push_back({factor});
      slots.push_back({factor});
    }
  }
  using Dims = SmallVector<SmallVector<FactorId, 2>>;
  Dims rows, slots, index; ///< of the tensor of rows, of that of slots, of which slot a row has
};
} // namespace

static void addOperand(OpRule &rule, unsigned operand, const SlotFactors::Dims &dims) {
  for (ArrayRef<FactorId> dim : dims)
    rule.operandCompound(operand, dim);
}

static void addResult(OpRule &rule, const SlotFactors::Dims &dims) {
  for (ArrayRef<FactorId> dim : dims)
    rule.resultCompound(0, dim);
}

ShardingRule ToSlotsOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SlotFactors dims(rule, getInput(), getResult(), FactorKind::Parallel);
  addOperand(rule, 0, dims.rows);
  addOperand(rule, 1, dims.index);
  addResult(rule, dims.slots);
  if (!getElementTypeOrSelf(getInput()).isInteger()) // where -1 stands for no row
    rule.linear({0});
  return rule.build();
}

/// A row comes from one part; the others have zeros for it.
ShardingRule FromSlotsOp::buildShardingRule(UnitFactors units) {
  OpRule rule(*this, units);
  SlotFactors dims(rule, getResult(), getInput(), FactorKind::Reduction);
  addOperand(rule, 0, dims.slots);
  addOperand(rule, 1, dims.index);
  addResult(rule, dims.rows);
  return rule.linear({0}).build();
}

/// Slots as they are numbered by the rank that has only some of the parts.
static Value localSlots(OpBuilder &builder, Location loc, const LocalContext &context,
                        const sharding::TensorFactors &dims, const SlotShape &shape, Value slots) {
  Value part = shardOffset(builder, context, dims, shape.partDim());
  if (!part)
    return slots;
  TensorBuilder b(builder, loc);
  Value first =
      arith::MulIOp::create(builder, loc, part, b.integer(part.getType(), shape.capacity));
  return shiftIndices(builder, loc, slots, first);
}

FailureOr<SmallVector<Value>> ToSlotsOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                    TypeRange resultTypes,
                                                    const LocalContext &context) {
  SlotShape shape(getInput(), getResult());
  Value slots = localSlots(builder, getLoc(), context, context.rule.results[0], shape, operands[1]);
  return cloneLocal(*this, builder, {operands[0], slots}, resultTypes);
}

FailureOr<SmallVector<Value>> FromSlotsOp::buildLocal(OpBuilder &builder, ValueRange operands,
                                                      TypeRange resultTypes,
                                                      const LocalContext &context) {
  SlotShape shape(getResult(), getInput());
  Value slots =
      localSlots(builder, getLoc(), context, context.rule.operands[0], shape, operands[1]);
  return cloneLocal(*this, builder, {operands[0], slots}, resultTypes);
}

/// Each slot is compared with each row of its section that it may have, or gets the one. The row is
/// looked up then.
OpCost ToSlotsOp::getCost() {
  SlotShape shape(getInput(), getResult());
  double pairs = static_cast<double>(shape.samples) * static_cast<double>(shape.sections) *
                 static_cast<double>(shape.slots()) *
                 static_cast<double>(getApart().value_or(getTile() ? 1 : shape.rows));
  return {.kind = OpKind::Lookup, .flops = kFlopsOfPair * pairs};
}
OpCost FromSlotsOp::getCost() { return {OpKind::Lookup}; }

} // namespace dtc::graph
