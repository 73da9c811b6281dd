// Slots are counted, and rows looked up by them.
//
// A row is compared with others of its chunk of the section, and what earlier chunks have is
// counted. Slots are compared with every row of their section. That is little beside the products
// that the rows are in. Where the rows of a token are apart, a slot is compared with these alone,
// and rows with none. Slots in tiles, which may be many, get the numbers of their rows.
#include "dtc/Dialect/Graph/SlotOps.h"
#include "../SlotShape.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;

namespace dtc::graph {

static Value both(TensorBuilder &b, Value x, Value y) {
  return arith::AndIOp::create(b.builder, b.loc, x, y);
}

static Value plus(TensorBuilder &b, Value x, Value y) {
  return arith::AddIOp::create(b.builder, b.loc, x, y);
}

static Value times(TensorBuilder &b, Value x, int64_t factor) {
  return arith::MulIOp::create(b.builder, b.loc, x, b.integer(x.getType(), factor));
}

/// Whether 0 <= x < end.
static Value isBelow(TensorBuilder &b, Value x, int64_t end) {
  return both(b, b.compare(arith::CmpIPredicate::sge, x, int64_t(0)),
              b.compare(arith::CmpIPredicate::slt, x, end));
}

/// `x` where the condition holds, -1 elsewhere.
static Value orNone(TensorBuilder &b, Value condition, Value x) {
  return b.select(condition, x, b.integer(x.getType(), -1));
}

/// Slices of `table`, whose first dimension is one of all samples, sections and rows (or slots), by
/// their numbers in it; -1 gives zeros.
static Value lookUp(TensorBuilder &b, Value table, Value numbers) {
  SmallVector<int64_t> shape(shapeOf(numbers));
  llvm::append_range(shape, shapeOf(table).drop_front());
  auto type = RankedTensorType::get(shape, getElementTypeOrSelf(table));
  return GatherOp::create(b.builder, b.loc, type, table, numbers, 0, IntegerAttr());
}

/// [a, b, ...] as [a * b, ...], of the first `count` dimensions.
static Value merged(TensorBuilder &b, Value value, int64_t count) {
  ArrayRef<int64_t> sizes = shapeOf(value);
  SmallVector<int64_t> shape = {1};
  for (int64_t size : sizes.take_front(count))
    shape[0] *= size;
  llvm::append_range(shape, sizes.drop_front(count));
  return b.reshape(value, shape);
}

/// The number of the first row, or slot, of each sample and section; of `shape`.
static Value firstOf(TensorBuilder &b, Type element, ArrayRef<int64_t> shape, int64_t sections,
                     int64_t each) {
  return plus(b, times(b, b.iota(element, shape, 0), sections * each),
              times(b, b.iota(element, shape, 1), each));
}

/// 1 where a condition holds, summed over the last dimension.
static Value countWhere(TensorBuilder &b, Value condition, Type element) {
  ArrayRef<int64_t> shape = shapeOf(condition);
  auto type = RankedTensorType::get(shape, element);
  return b.sum(b.select(condition, b.integer(type, 1), b.integer(type, 0)),
               {static_cast<int64_t>(shape.size()) - 1});
}

/// How many earlier rows of [chunk, row] have the same number.
static Value earlierInChunk(TensorBuilder &b, Value number) {
  ArrayRef<int64_t> shape = shapeOf(number);
  Type element = getElementTypeOrSelf(number);
  SmallVector<int64_t> pairs = {shape[0], shape[1], shape[1]};
  Value isSame = b.compare(arith::CmpIPredicate::eq, b.broadcast(number, {0, 1}, pairs),
                           b.broadcast(number, {0, 2}, pairs));
  Value isEarlier =
      b.compare(arith::CmpIPredicate::slt, b.iota(element, pairs, 2), b.iota(element, pairs, 1));
  return countWhere(b, both(b, isSame, isEarlier), element);
}

/// How many rows of [chunk, row] have each number.
static Value countsOf(TensorBuilder &b, Value number, int64_t numbers) {
  ArrayRef<int64_t> shape = shapeOf(number);
  Type element = getElementTypeOrSelf(number);
  SmallVector<int64_t> pairs = {shape[0], numbers, shape[1]};
  Value isIts = b.compare(arith::CmpIPredicate::eq, b.broadcast(number, {0, 2}, pairs),
                          b.iota(element, pairs, 1));
  return countWhere(b, isIts, element);
}

/// How many earlier rows of a section have the same number, of a part or an expert, of so many.
/// Rows are compared with those of their chunk, and what those of earlier chunks chose is counted.
static Value earlierAlike(TensorBuilder &b, Value number, int64_t numbers) {
  SmallVector<int64_t> shape(shapeOf(number));
  Type element = getElementTypeOrSelf(number);
  const int64_t together = rowsTogether(shape[2]), chunks = shape[2] / together,
                sections = shape[0] * shape[1];
  Value inChunks = b.reshape(number, {sections * chunks, together});
  Value within = b.reshape(earlierInChunk(b, inChunks), shape);
  if (chunks == 1)
    return within;
  Value counts = b.reshape(countsOf(b, inChunks, numbers), {sections, chunks, numbers});
  SmallVector<int64_t> pairs = {sections, chunks, numbers, chunks};
  Value isEarlier =
      b.compare(arith::CmpIPredicate::slt, b.iota(element, pairs, 3), b.iota(element, pairs, 1));
  Value other = b.broadcast(b.transpose(counts, {0, 2, 1}), {0, 2, 3}, pairs);
  Value before = b.sum(b.select(isEarlier, other, b.integer(other.getType(), 0)), {3});
  Value chunk = b.iota(element, shapeOf(inChunks), 0);
  Value place = plus(b, times(b, chunk, numbers), inChunks);
  Value found = lookUp(b, merged(b, before, 3), orNone(b, isBelow(b, inChunks, numbers), place));
  return plus(b, within, b.reshape(found, shape));
}

/// Of each section's experts, the slot of their part at which their rows begin: behind the tiles of
/// those before them in the part.
static Value firstSlots(TensorBuilder &b, Value choices, int64_t experts, int64_t inPart,
                        int64_t tile) {
  ArrayRef<int64_t> shape = shapeOf(choices);
  Type element = getElementTypeOrSelf(choices);
  const int64_t sections = shape[0] * shape[1];
  Value rows = countsOf(b, b.reshape(choices, {sections, shape[2]}), experts);
  auto over = [&](Value value, int64_t divisor) -> Value {
    return arith::DivSIOp::create(b.builder, b.loc, value, b.integer(value.getType(), divisor));
  };
  Value tiles = over(plus(b, rows, b.integer(rows.getType(), tile - 1)), tile);
  SmallVector<int64_t> pairs = {sections, experts, experts};
  Value own = b.iota(element, pairs, 1), other = b.iota(element, pairs, 2);
  Value isBefore =
      both(b, b.compare(arith::CmpIPredicate::slt, other, own),
           b.compare(arith::CmpIPredicate::eq, over(other, inPart), over(own, inPart)));
  Value before = b.broadcast(tiles, {0, 2}, pairs);
  before = b.sum(b.select(isBefore, before, b.integer(before.getType(), 0)), {2});
  return times(b, before, tile);
}

/// Within its part: behind the earlier rows of its expert, where that one's tiles begin.
static Value slotInTiles(TensorBuilder &b, Value choices, Value isExpert, int64_t experts,
                         int64_t inPart, int64_t tile) {
  ArrayRef<int64_t> shape = shapeOf(choices);
  Type element = getElementTypeOrSelf(choices);
  Value first = merged(b, firstSlots(b, choices, experts, inPart, tile), 2);
  Value number = plus(b, choices, firstOf(b, element, shape, shape[1], experts));
  return plus(b, lookUp(b, first, orNone(b, isExpert, number)), earlierAlike(b, choices, experts));
}

/// A row's slot is its token's, or one of its expert's tiles, or else the number of earlier rows of
/// its part.
FailureOr<SmallVector<Value>> ExpertSlotsOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  const auto sections = static_cast<int64_t>(getSections());
  const auto capacity = static_cast<int64_t>(getCapacity());
  const auto experts = static_cast<int64_t>(getExperts());
  const int64_t samples = shapeOf(getChoices())[0], rows = shapeOf(getChoices())[1] / sections;
  Type element = getElementTypeOrSelf(getChoices());
  Value choices = b.reshape(getChoices(), {samples, sections, rows});
  Value isExpert = isBelow(b, choices, experts);
  const int64_t inPart = experts / static_cast<int64_t>(getParts());
  Value perPart = b.integer(choices.getType(), inPart);
  Value part = orNone(b, isExpert, arith::DivSIOp::create(builder, getLoc(), choices, perPart));

  Value before;
  if (auto apart = getApart())
    before = arith::DivSIOp::create(builder, getLoc(), b.iota(element, shapeOf(choices), 2),
                                    b.integer(choices.getType(), static_cast<int64_t>(*apart)));
  else if (auto tile = getTile())
    before = slotInTiles(b, choices, isExpert, experts, inPart, static_cast<int64_t>(*tile));
  else
    before = earlierAlike(b, part, static_cast<int64_t>(getParts()));
  Value hasSlot = both(b, isExpert, isBelow(b, before, capacity));
  Value slot = orNone(b, hasSlot, plus(b, times(b, part, capacity), before));
  return SmallVector<Value>{b.reshape(slot, shapeOf(getResult()))};
}

/// Of each slot, the row of its section that has it, or -1: one of all, or of its token's.
static Value rowsOfSlots(TensorBuilder &b, const SlotShape &shape, Value slots, int64_t apart) {
  Type element = getElementTypeOrSelf(slots);
  const int64_t tokens = shape.rows / apart;
  SmallVector<int64_t> rows = {shape.samples, shape.sections, tokens, apart},
                       pairs = {shape.samples, shape.sections, shape.parts, tokens, apart};
  Value own = b.broadcast(b.reshape(slots, rows), {0, 1, 3, 4}, pairs);
  Value token = b.iota(element, pairs, 3);
  Value slot = plus(b, times(b, b.iota(element, pairs, 2), shape.capacity), token);
  Value isIts = b.compare(arith::CmpIPredicate::eq, own, slot);
  Value row = plus(b, times(b, token, apart), b.iota(element, pairs, 4));
  Value found = b.reduce(ReduceKind::Max, orNone(b, isIts, row), {4});
  return b.reshape(found, {shape.samples, shape.sections, shape.slots()});
}

static Value rowsOfSlots(TensorBuilder &b, const SlotShape &shape, Value slots) {
  Type element = getElementTypeOrSelf(slots);
  SmallVector<int64_t> pairs = {shape.samples, shape.sections, shape.slots(), shape.rows};
  Value own =
      b.broadcast(b.reshape(slots, {shape.samples, shape.sections, shape.rows}), {0, 1, 3}, pairs);
  Value isIts = b.compare(arith::CmpIPredicate::eq, own, b.iota(element, pairs, 2));
  return b.reduce(ReduceKind::Max, orNone(b, isIts, b.iota(element, pairs, 3)), {3});
}

/// Each row gives its number, from 1 on, to its slot. They are exact in f32.
static Value rowsOfTiles(TensorBuilder &b, const SlotShape &shape, Value slots) {
  Type element = getElementTypeOrSelf(slots);
  SmallVector<int64_t> rows = {shape.samples, shape.sections, shape.rows};
  Value own = b.reshape(slots, rows);
  Value place = plus(b, own, firstOf(b, element, rows, shape.sections, shape.slots()));
  place = orNone(b, isBelow(b, own, shape.slots()), place);
  Value row = b.iota(element, rows, 2);
  Value number = b.convert(plus(b, row, b.integer(row.getType(), 1)), b.builder.getF32Type());
  auto type = RankedTensorType::get({shape.samples * shape.sections * shape.slots()},
                                    b.builder.getF32Type());
  Value given = ScatterAddOp::create(b.builder, b.loc, type, place, number, 0);
  given = b.reshape(given, {shape.samples, shape.sections, shape.slots()});
  auto whole = cast<RankedTensorType>(given.getType()).clone(element);
  Value found = arith::FPToSIOp::create(b.builder, b.loc, whole, given);
  return plus(b, found, b.integer(whole, -1));
}

/// Each slot finds its row: the one, if any, that has it.
FailureOr<SmallVector<Value>> ToSlotsOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  const SlotShape shape(getInput(), getResult());
  Type element = getElementTypeOrSelf(getSlots());
  Value row = getApart()  ? rowsOfSlots(b, shape, getSlots(), static_cast<int64_t>(*getApart()))
              : getTile() ? rowsOfTiles(b, shape, getSlots())
                          : rowsOfSlots(b, shape, getSlots());
  Value first = firstOf(b, element, shapeOf(row), shape.sections, shape.rows);
  Value hasRow = b.compare(arith::CmpIPredicate::sge, row, int64_t(0));
  Value result = lookUp(b, merged(b, getInput(), 2), orNone(b, hasRow, plus(b, row, first)));
  if (getElementTypeOrSelf(result).isInteger())
    result = orNone(b, b.broadcast(hasRow, {0, 1, 2}, shapeOf(result)), result);
  return SmallVector<Value>{b.reshape(result, shapeOf(getResult()))};
}

FailureOr<SmallVector<Value>> FromSlotsOp::decompose(OpBuilder &builder) {
  TensorBuilder b(builder, getLoc());
  const SlotShape shape(getResult(), getInput());
  Type element = getElementTypeOrSelf(getSlots());
  Value slots = b.reshape(getSlots(), {shape.samples, shape.sections, shape.rows});
  Value first = firstOf(b, element, shapeOf(slots), shape.sections, shape.slots());
  Value number = orNone(b, isBelow(b, slots, shape.slots()), plus(b, slots, first));
  Value result = lookUp(b, merged(b, getInput(), shape.partDim() + 2), number);
  return SmallVector<Value>{b.reshape(result, shapeOf(getResult()))};
}

} // namespace dtc::graph
