// What a thread does in scatter kernels: its columns of the block's rows of the table.
//
//     rows := what is added to, or zeros                               where they aren't there
//     for each piece of the indices                                    or of the block's bucket
//       list += places of those that name a row of the block           all warps, each its part
//       where the list is nearly full, or this is the last piece
//         for each place of the list: row[index] += update[place]      all threads, each its
//         columns
//
// The list has the indices' order, so that sums have one order, whatever the threads do. Several
// places are added at once, so that a row that most indices name doesn't wait for each of them.
#include "ThreadEmitter.h"
#include "WarpOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dtc::cuda {

using namespace kernels;

using graph::ReduceKind;
using graph::shapeOf;

/// Neighbouring columns of a thread, and matches that are read before they are added up.
static constexpr int64_t kColumnsAtOnce = 4, kMatchesAtOnce = 8;
/// Pieces of indices whose matches a list has room for.
static constexpr int64_t kListedPieces = 2;
/// Indices that a thread reads before it looks at them.
static constexpr int64_t kIndicesAtOnce = 8;

Value ThreadEmitter::integer(int64_t value) {
  return evaluator.constant(builder.getI32IntegerAttr(static_cast<int32_t>(value)));
}

void ThreadEmitter::forColumns(int64_t width, llvm::function_ref<void(ArrayRef<AffineExpr>)> body) {
  const int64_t unit = width % kColumnsAtOnce == 0 ? kColumnsAtOnce : 1, units = width / unit;
  loop(lane, evaluator.constantInt(units), plan.threads, {0, units}, {},
       [&](AffineExpr number, ValueRange) {
         SmallVector<AffineExpr> columns;
         for (int64_t i = 0; i < unit; ++i)
           columns.push_back(math.add(math.multiply(number, unit), i));
         body(columns);
         return Values();
       });
}

void ThreadEmitter::initializeTable(TableRows rows) {
  SpecialResult special = specialResult(info);
  Type element = getElementTypeOrSelf(info.results[0]);
  const int64_t all = elementsOf(info.results[0]) / rows.width;
  Value low = evaluator.lower(rows.first), count = evaluator.constantInt(rows.count),
        most = evaluator.constantInt(all);
  evaluator.position();
  Value high = arith::AddIOp::create(builder, loc, low, count);
  high = arith::MinSIOp::create(builder, loc, high, most);
  phase = 1;
  loop(low, high, 1, {0, all}, {}, [&](AffineExpr row, ValueRange) {
    forColumns(rows.width, [&](ArrayRef<AffineExpr> columns) {
      SmallVector<std::pair<AffineExpr, Value>> elements;
      for (AffineExpr column : columns) {
        AffineExpr number = math.add(math.multiply(row, rows.width), column);
        writtenElement = number;
        Value sum;
        for (Value term : special.terms) {
          Value value = evaluator.emit(term, math.delinearize(number, shapeOf(info.results[0])));
          sum = sum ? evaluator.combine(ReduceKind::Sum, sum, value) : value;
        }
        elements.emplace_back(number, sum ? sum : evaluator.constantOf(element, 0));
        writtenElement = {};
      }
      for (auto [number, value] : elements)
        storeAt(0, number, value);
    });
    return Values();
  });
}

/// Where all that is added to is an operand, whose buffer the result may have, its rows needn't be
/// copied onto themselves.
Value ThreadEmitter::termIsElsewhere() {
  SpecialResult special = specialResult(info);
  auto term = special.terms.size() == 1 ? dyn_cast<BlockArgument>(special.terms[0]) : nullptr;
  if (!term || plan.inPlace.empty() || plan.inPlace[0] != static_cast<int64_t>(term.getArgNumber()))
    return {};
  evaluator.position();
  return LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne, arguments[term.getArgNumber()],
                              arguments[info.body.getNumArguments()]);
}

/// Each warp looks at indices that follow each other, 32 at a time.
SmallVector<ThreadEmitter::IndexMatch>
ThreadEmitter::findMatches(graph::ScatterAddOp op, TableRows rows, AffineExpr first) {
  ArrayRef<int64_t> indexShape = shapeOf(op.getIndices());
  const int64_t count = IndexMath::numElements(indexShape),
                size = shapeOf(op.getResult())[op.getAxis()];
  Value own = evaluator.lower(math.modulo(rows.first, size)), start = evaluator.lower(first);
  Value end = evaluator.constantInt(rows.count), most = evaluator.constantInt(count - 1);
  Value warp = threadOver(kWarp), inWarp = threadModulo(kWarp);
  Value ofWarp = integer(kWarp * kIndicesAtOnce);
  SmallVector<IndexMatch> matches(kIndicesAtOnce);
  SmallVector<std::pair<Value, Value>> named;
  for (auto [i, match] : llvm::enumerate(matches)) {
    Value before = integer(kWarp * static_cast<int64_t>(i));
    evaluator.position();
    Value place = arith::MulIOp::create(builder, loc, warp, ofWarp);
    place = arith::AddIOp::create(builder, loc, place, inWarp);
    place = arith::AddIOp::create(builder, loc, place, before);
    place = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), place);
    match.place = arith::AddIOp::create(builder, loc, place, start);
    Value safe = arith::MinSIOp::create(builder, loc, match.place, most);
    AffineExpr number = evaluator.variableFor(safe, {0, count});
    auto [at, valid] =
        evaluator.checkedIndex(op.getIndices(), math.delinearize(number, indexShape), size);
    named.emplace_back(evaluator.lower(at), valid);
  }
  for (auto [match, index] : llvm::zip(matches, named)) {
    Value exists = isBelow(match.place, count);
    evaluator.position();
    match.row = arith::SubIOp::create(builder, loc, index.first, own);
    Value isOwn = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, match.row, end);
    isOwn = arith::AndIOp::create(builder, loc, isOwn, index.second);
    match.isOwn = arith::AndIOp::create(builder, loc, isOwn, exists);
    match.ofWarp = WarpOps{builder, loc}.ballot(match.isOwn);
  }
  return matches;
}

Value ThreadEmitter::listMatches(ArrayRef<IndexMatch> matches, const MatchList &list,
                                 Value listed) {
  Value none = integer(0), one = integer(1), found = none;
  Value warp = threadOver(kWarp), inWarp = threadModulo(kWarp);
  for (const IndexMatch &match : matches) {
    evaluator.position();
    Value bits = math::CtPopOp::create(builder, loc, match.ofWarp);
    found = arith::AddIOp::create(builder, loc, found, bits);
  }
  evaluator.position();
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, inWarp, none);
  when(isFirst, [&] { storeShared(list.counts, warp, found); });
  evaluator.position();
  WarpOps{builder, loc}.meetInBlock();

  // Behind what warps before this one have found, and lanes before this one.
  Value already = narrow(listed);
  auto [before, total] = sumsOverWarps(list.counts, {already, already});
  evaluator.position();
  Value below = arith::ShLIOp::create(builder, loc, one, inWarp);
  below = arith::SubIOp::create(builder, loc, below, one);
  for (const IndexMatch &match : matches) {
    evaluator.position();
    Value ahead = arith::AndIOp::create(builder, loc, match.ofWarp, below);
    ahead = math::CtPopOp::create(builder, loc, ahead);
    ahead = arith::AddIOp::create(builder, loc, before, ahead);
    Value place = narrow(match.place), row = narrow(match.row);
    Value bits = math::CtPopOp::create(builder, loc, match.ofWarp);
    before = arith::AddIOp::create(builder, loc, before, bits);
    when(match.isOwn, [&] {
      storeShared(list.places, ahead, place);
      storeShared(list.rows, ahead, row);
    });
  }
  evaluator.position();
  WarpOps{builder, loc}.meetInBlock();
  return wide(total);
}

void ThreadEmitter::addTogether(graph::ScatterAddOp op, TableRows rows,
                                ArrayRef<IndexMatch> matches) {
  ArrayRef<int64_t> shape = shapeOf(op.getResult()), indexShape = shapeOf(op.getIndices());
  const int64_t axis = op.getAxis(), size = shape[axis], count = IndexMath::numElements(indexShape);
  Type element = getElementTypeOrSelf(info.results[0]);
  SmallVector<AffineExpr> targets;
  SmallVector<Index> sources;
  for (const IndexMatch &match : matches) {
    targets.push_back(math.add(rows.first, evaluator.variableFor(match.row, {0, rows.count})));
    AffineExpr row = rows.count > 1 ? math.constant(0) : rows.first;
    sources.push_back(math.delinearize(math.floorDivide(row, size), shape.take_front(axis)));
    sources.back().append(
        math.delinearize(evaluator.variableFor(match.place, {0, count}), indexShape));
  }
  forColumns(rows.width, [&](ArrayRef<AffineExpr> columns) {
    SmallVector<Values> sums(matches.size()), updates(matches.size());
    SmallVector<SmallVector<AffineExpr>> places(matches.size());
    for (size_t i = 0; i < matches.size(); ++i)
      for (AffineExpr column : columns) {
        Index source = sources[i];
        source.append(math.delinearize(column, shape.drop_front(axis + 1)));
        updates[i].push_back(evaluator.emit(op.getUpdates(), source));
        places[i].push_back(math.add(math.multiply(targets[i], rows.width), column));
        Value from = address(arguments[info.body.getNumArguments()], places[i].back(), element);
        evaluator.position();
        sums[i].push_back(LLVM::LoadOp::create(builder, loc, element, from, storageBytes(element)));
      }
    Value zero = evaluator.constantOf(element, 0);
    for (size_t i = 0; i < matches.size(); ++i)
      for (size_t column = 0; column < columns.size(); ++column) {
        // What a row has been given by the matches before this one isn't in memory yet.
        Value &sum = sums[i][column];
        for (size_t before = 0; before < i; ++before) {
          evaluator.position();
          Value isSame = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                               matches[before].row, matches[i].row);
          sum = evaluator.select(isSame, sums[before][column], sum);
        }
        Value update = evaluator.select(matches[i].isOwn, updates[i][column], zero);
        sum = evaluator.combine(ReduceKind::Sum, sum, update);
      }
    for (auto [to, own] : llvm::zip(places, sums))
      for (auto [place, sum] : llvm::zip(to, own))
        storeAt(0, place, sum);
  });
}

/// Behind the last match that one stands for the others, with nothing to add.
void ThreadEmitter::addMatches(graph::ScatterAddOp op, TableRows rows, const MatchList &list,
                               Value total) {
  Type i32 = builder.getI32Type(), i64 = builder.getI64Type();
  Value one = evaluator.constantInt(1);
  evaluator.position();
  Value last = arith::SubIOp::create(builder, loc, total, one);
  loop(evaluator.constantInt(0), total, kMatchesAtOnce, {0, list.room}, {},
       [&](AffineExpr first, ValueRange) {
         SmallVector<IndexMatch> matches(kMatchesAtOnce);
         for (auto [i, match] : llvm::enumerate(matches)) {
           Value turn = evaluator.lower(math.add(first, i));
           evaluator.position();
           match.isOwn = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, turn, last);
           turn = arith::MinSIOp::create(builder, loc, turn, last);
           Value place = loadShared(list.places, turn, i32), row = loadShared(list.rows, turn, i32);
           evaluator.position();
           match.place = arith::ExtUIOp::create(builder, loc, i64, place);
           match.row = arith::ExtUIOp::create(builder, loc, i64, row);
         }
         addTogether(op, rows, matches);
         return Values();
       });
}

ThreadEmitter::MatchList ThreadEmitter::matchList(int64_t room) {
  Type i32 = builder.getI32Type();
  return {sharedArray(i32, room), sharedArray(i32, room), sharedArray(i32, plan.threads / kWarp),
          room};
}

void ThreadEmitter::addIndices(graph::ScatterAddOp op, TableRows rows) {
  const int64_t count = IndexMath::numElements(shapeOf(op.getIndices())),
                piece = plan.threads * kIndicesAtOnce;
  MatchList list = matchList(kListedPieces * piece);
  Value none = evaluator.constantInt(0);
  loop(none, evaluator.constantInt(count), piece, {0, count}, none,
       [&](AffineExpr first, ValueRange listed) {
         Value total = listMatches(findMatches(op, rows, first), list, listed[0]);
         Value most = evaluator.constantInt(list.room - piece),
               lastPiece = evaluator.constantInt(count - piece), start = evaluator.lower(first);
         Value isFull = is(arith::CmpIPredicate::sgt, total, most),
               isLast = is(arith::CmpIPredicate::sge, start, lastPiece);
         evaluator.position();
         Value isDue = arith::OrIOp::create(builder, loc, isFull, isLast);
         when(isDue, [&] { addMatches(op, rows, list, total); });
         return Values{evaluator.select(isDue, none, total)};
       });
}

void ThreadEmitter::emitScatter() {
  auto op = cast<graph::ScatterAddOp>(specialResult(info).op);
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  const int64_t width = IndexMath::numElements(shape.drop_front(op.getAxis() + 1));
  Type element = getElementTypeOrSelf(op.getType());
  if (computeType(element) != element)
    return evaluator.fail(op, "a kernel needs scatter_add in f32");
  if (op.getBuckets() && op.getAxis() != 0)
    return evaluator.fail(op, "a kernel needs buckets to be of the outermost rows");
  lane = wide(thread);
  laneVariable = evaluator.variableFor(lane, {0, plan.threads});
  withItem(groupNumber(1, Value()), [&](AffineExpr block) {
    TableRows rows{math.multiply(block, plan.lanes), plan.lanes, width};
    if (Value isElsewhere = termIsElsewhere())
      when(isElsewhere, [&] { initializeTable(rows); });
    else
      initializeTable(rows);
    phase = 2; // operands read from here on cannot share the result's buffer
    if (op.getBuckets())
      addBuckets(op, rows, block);
    else
      addIndices(op, rows);
  });
}

} // namespace dtc::cuda
