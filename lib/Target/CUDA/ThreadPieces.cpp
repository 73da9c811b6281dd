// What a thread does in kernels of several pieces.
#include "ThreadEmitter.h"
#include "WarpOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dtc::cuda {

using namespace kernels;

using graph::ReduceKind;
using graph::ReduceOp;

/// Units that a thread reads before it adds them up.
static constexpr int64_t kUnitsAtOnce = 4;

/// Halves the pieces until one is left, by the number of the block alone: all threads of a warp go
/// the same way.
ThreadEmitter::Values ThreadEmitter::pieceOf(size_t first, size_t last) {
  auto constant = [&](int64_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
  };
  if (last - first == 1) {
    unsigned own = info.ownArguments, results = ownResults();
    unsigned written = info.body.getNumArguments();
    Values found;
    for (unsigned i = 0; i < own; ++i)
      found.push_back(arguments[first * own + i]);
    for (unsigned i = 0; i < results; ++i)
      found.push_back(arguments[written + first * results + i]);
    found.push_back(constant(plan.pieces[first].firstBlock));
    found.push_back(constant(plan.pieces[first].items));
    return found;
  }
  size_t middle = (first + last) / 2;
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, block,
                                        constant(plan.pieces[middle].firstBlock));
  Type pointer = arguments[0].getType(), i32 = builder.getI32Type();
  SmallVector<Type> types(info.ownArguments + ownResults(), pointer);
  types.append({i32, i32});
  auto branch = scf::IfOp::create(builder, loc, types, isFirst, /*withElseRegion=*/true);
  for (auto [region, low, high] : {std::tuple(&branch.getThenRegion(), first, middle),
                                   {&branch.getElseRegion(), middle, last}}) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&region->front());
    scf::YieldOp::create(builder, loc, pieceOf(low, high));
  }
  return Values(branch.getResults());
}

/// Behind branches LLVM doesn't see any more how pointers are aligned; each access says it.
void ThreadEmitter::takePointers(ValueRange pointers) {
  unsigned own = info.ownArguments, written = info.body.getNumArguments();
  for (auto [i, pointer] : llvm::enumerate(pointers)) {
    unsigned place = i < own ? i : written + i - own, step = i < own ? own : ownResults();
    int64_t alignment = alignmentOf(place);
    for (int64_t piece = 1; piece < info.pieces; ++piece)
      alignment = std::min(alignment, alignmentOf(place + piece * step));
    arguments[place] = pointer;
    chosenAlignment[place] = alignment;
  }
}

void ThreadEmitter::emitPieces() {
  evaluator.position();
  Values found = pieceOf(0, info.pieces);
  takePointers(ValueRange(found).drop_back(2));
  evaluator.position();
  Value number = arith::SubIOp::create(builder, loc, block, found[found.size() - 2]);
  Value threads = arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(plan.threads));
  number = arith::MulIOp::create(builder, loc, number, threads);
  number = arith::AddIOp::create(builder, loc, number, thread);
  Value exists =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, number, found.back());
  Value item = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), number);
  when(exists, [&] { emitUnit(evaluator.variableFor(item, {0, plan.items})); });
}

// Pieces that are added up.

/// Adds up to the sums what units of a piece have, from `first` on, as many apart as there are
/// threads. Of those behind the last one, `items` - 1, it reads that one for nothing.
ThreadEmitter::Values ThreadEmitter::addUnits(Value first, Value items, int64_t count,
                                              ValueRange sums) {
  SmallVector<std::pair<AffineExpr, Value>> units; // and whether they exist
  Value one = evaluator.constantInt(1);
  for (int64_t i = 0; i < count; ++i) {
    Value apart = evaluator.constantInt(i * plan.threads);
    evaluator.position();
    Value number = arith::AddIOp::create(builder, loc, first, apart);
    Value last = arith::SubIOp::create(builder, loc, items, one);
    Value exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, number, items);
    Value safe = arith::MinSIOp::create(builder, loc, number, last);
    units.emplace_back(evaluator.variableFor(safe, {0, plan.items}), exists);
  }
  Values next(sums);
  for (auto [join, sum] : llvm::zip_equal(info.joins, next)) {
    Value term = partialSum(join, 0)->term,
          none = evaluator.identityOf(ReduceKind::Sum, sum.getType());
    Values terms;
    for (auto [unit, exists] : units)
      for (int64_t i = 0; i < plan.unit; ++i) {
        Value value = evaluator.emit(term, {math.add(math.multiply(unit, plan.unit), i)});
        terms.push_back(evaluator.select(exists, value, none));
      }
    for (Value value : terms)
      sum = evaluator.combine(ReduceKind::Sum, sum, value);
  }
  return next;
}

/// What a thread has of its block's part.
ThreadEmitter::Values ThreadEmitter::addUpPart(Value firstBlock, Value items) {
  Type i64 = builder.getI64Type();
  Value perPart = evaluator.constantInt(plan.rounds * plan.threads);
  evaluator.position();
  Value part = arith::SubIOp::create(builder, loc, block, firstBlock);
  Value first = arith::ExtUIOp::create(builder, loc, i64, part);
  first = arith::MulIOp::create(builder, loc, first, perPart);
  first = arith::AddIOp::create(builder, loc, first, lane);
  Value most = arith::ExtUIOp::create(builder, loc, i64, items);
  Values none;
  for (graph::ConcatOp join : info.joins)
    none.push_back(evaluator.identityOf(
        ReduceKind::Sum, computeType(getElementTypeOrSelf(join.getResult().getType()))));
  if (plan.rounds <= kUnitsAtOnce)
    return addUnits(first, most, plan.rounds, none);
  return loop(evaluator.constantInt(0), evaluator.constantInt(plan.rounds), kUnitsAtOnce,
              {0, plan.rounds}, none, [&](AffineExpr round, ValueRange sums) {
                Value ahead = evaluator.lower(math.multiply(round, plan.threads));
                evaluator.position();
                Value from = arith::AddIOp::create(builder, loc, first, ahead);
                return addUnits(from, most, kUnitsAtOnce, sums);
              });
}

void ThreadEmitter::emitTotals() {
  evaluator.position();
  lane = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), thread);
  Values found = pieceOf(0, info.pieces);
  takePointers(ValueRange(found).drop_back(2));
  SmallVector<ReduceOp> sums = llvm::map_to_vector(
      info.joins, [](graph::ConcatOp join) { return partialSum(join, 0)->reduce; });
  Values totals = acrossLanes(sums, addUpPart(found[found.size() - 2], found.back()));
  phase = 1;
  when(isBelow(lane, 1), [&] {
    evaluator.position();
    Value number = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), block);
    AffineExpr place = evaluator.variableFor(number, {0, plan.blocks});
    for (auto [result, total] : llvm::enumerate(totals))
      storeAt(result, place, total);
  });
}

} // namespace dtc::cuda
