// What a thread does in scatter kernels: its columns of the block's rows of the table.
//
//     rows := what is added to, or zeros
//     for each piece of the indices
//       list := places of those that name a row of the block     all warps, each a part of the
//       piece for each place of the list: row[index] += update[place]  all threads, each its
//       columns
//
// The list has the indices' order, so that sums have one order, whatever the threads do.
#include "ThreadEmitter.h"
#include "WarpOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dtc::cuda {

using namespace kernels;

using graph::ReduceKind;
using graph::shapeOf;

/// Columns that are read before they are written.
static constexpr int64_t kColumnsAtOnce = 4;
/// Indices that a thread reads before it looks at them.
static constexpr int64_t kIndicesAtOnce = 4;

Value ThreadEmitter::integer(int64_t value) {
  return evaluator.constant(builder.getI32IntegerAttr(static_cast<int32_t>(value)));
}

void ThreadEmitter::forColumns(int64_t width, llvm::function_ref<void(ArrayRef<AffineExpr>)> body) {
  const int64_t threads = plan.threads, step = threads * kColumnsAtOnce;
  const int64_t whole = width / step * step;
  if (whole > 0)
    loop(lane, evaluator.constantInt(whole), step, {0, whole - step + threads}, {},
         [&](AffineExpr first, ValueRange) {
           SmallVector<AffineExpr> columns;
           for (int64_t i = 0; i < kColumnsAtOnce; ++i)
             columns.push_back(math.add(first, i * threads));
           body(columns);
           return Values();
         });
  if (whole < width)
    loop(evaluator.lower(math.add(laneVariable, whole)), evaluator.constantInt(width), threads,
         {whole, width}, {}, [&](AffineExpr column, ValueRange) {
           body({column});
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
          sum = sum ? evaluator.combine(ReduceKind::Sum, sum, value, /*reorder=*/false) : value;
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
    Value row = arith::SubIOp::create(builder, loc, index.first, own);
    Value isOwn = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, row, end);
    isOwn = arith::AndIOp::create(builder, loc, isOwn, index.second);
    match.isOwn = arith::AndIOp::create(builder, loc, isOwn, exists);
    match.ofWarp = WarpOps{builder, loc}.ballot(match.isOwn);
  }
  return matches;
}

Value ThreadEmitter::listMatches(ArrayRef<IndexMatch> matches, Value list, Value counts) {
  Type i32 = builder.getI32Type();
  Value none = integer(0), one = integer(1), found = none;
  Value warp = threadOver(kWarp), inWarp = threadModulo(kWarp);
  for (const IndexMatch &match : matches) {
    evaluator.position();
    Value bits = math::CtPopOp::create(builder, loc, match.ofWarp);
    found = arith::AddIOp::create(builder, loc, found, bits);
  }
  evaluator.position();
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, inWarp, none);
  when(isFirst, [&] { storeShared(counts, warp, found); });
  evaluator.position();
  WarpOps{builder, loc}.meetInBlock();

  // Behind what warps before this one have found, and lanes before this one.
  Value total = none, before = none;
  for (int64_t i = 0; i < plan.threads / kWarp; ++i) {
    Value number = integer(i), ofWarp = loadShared(counts, number, i32);
    evaluator.position();
    Value isBefore = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ugt, warp, number);
    total = arith::AddIOp::create(builder, loc, total, ofWarp);
    ofWarp = arith::SelectOp::create(builder, loc, isBefore, ofWarp, none);
    before = arith::AddIOp::create(builder, loc, before, ofWarp);
  }
  evaluator.position();
  Value below = arith::ShLIOp::create(builder, loc, one, inWarp);
  below = arith::SubIOp::create(builder, loc, below, one);
  for (const IndexMatch &match : matches) {
    evaluator.position();
    Value ahead = arith::AndIOp::create(builder, loc, match.ofWarp, below);
    ahead = math::CtPopOp::create(builder, loc, ahead);
    ahead = arith::AddIOp::create(builder, loc, before, ahead);
    Value place = arith::TruncIOp::create(builder, loc, i32, match.place);
    Value bits = math::CtPopOp::create(builder, loc, match.ofWarp);
    before = arith::AddIOp::create(builder, loc, before, bits);
    when(match.isOwn, [&] { storeShared(list, ahead, place); });
  }
  evaluator.position();
  WarpOps{builder, loc}.meetInBlock();
  return arith::ExtUIOp::create(builder, loc, builder.getI64Type(), total);
}

void ThreadEmitter::addMatch(graph::ScatterAddOp op, TableRows rows, AffineExpr number) {
  ArrayRef<int64_t> shape = shapeOf(op.getResult()), indexShape = shapeOf(op.getIndices());
  const int64_t axis = op.getAxis(), size = shape[axis];
  Index place = math.delinearize(number, indexShape);
  AffineExpr row = rows.first;
  if (rows.count > 1) // of a table whose rows are named by the first dimension
    row = evaluator.checkedIndex(op.getIndices(), place, size).first;
  Index leading = math.delinearize(math.floorDivide(row, size), shape.take_front(axis));
  leading.append(place);
  forColumns(rows.width, [&](ArrayRef<AffineExpr> columns) {
    Type element = getElementTypeOrSelf(info.results[0]);
    SmallVector<std::pair<AffineExpr, Value>> sums;
    for (AffineExpr column : columns) {
      Index source = leading;
      source.append(math.delinearize(column, shape.drop_front(axis + 1)));
      Value update = evaluator.emit(op.getUpdates(), source);
      AffineExpr to = math.add(math.multiply(row, rows.width), column);
      Value from = address(arguments[info.body.getNumArguments()], to, element);
      evaluator.position();
      Value old = LLVM::LoadOp::create(builder, loc, element, from, storageBytes(element));
      sums.emplace_back(to, evaluator.combine(ReduceKind::Sum, old, update, /*reorder=*/false));
    }
    for (auto [to, sum] : sums)
      storeAt(0, to, sum);
  });
}

void ThreadEmitter::emitScatter() {
  auto op = cast<graph::ScatterAddOp>(specialResult(info).op);
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  const int64_t width = IndexMath::numElements(shape.drop_front(op.getAxis() + 1)),
                count = IndexMath::numElements(shapeOf(op.getIndices()));
  Type element = getElementTypeOrSelf(op.getType()), i32 = builder.getI32Type();
  if (computeType(element) != element)
    return evaluator.fail(op, "a kernel needs scatter_add in f32");
  evaluator.position();
  lane = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), thread);
  laneVariable = evaluator.variableFor(lane, {0, plan.threads});
  const int64_t piece = plan.threads * kIndicesAtOnce;
  Value list = sharedArray(i32, piece), counts = sharedArray(i32, plan.threads / kWarp);
  withItem(groupNumber(1, Value()), [&](AffineExpr block) {
    TableRows rows{math.multiply(block, plan.lanes), plan.lanes, width};
    initializeTable(rows);
    phase = 2; // operands read from here on cannot share the result's buffer
    loop(evaluator.constantInt(0), evaluator.constantInt(count), piece, {0, count}, {},
         [&](AffineExpr first, ValueRange) {
           Value total = listMatches(findMatches(op, rows, first), list, counts);
           loop(evaluator.constantInt(0), total, 1, {0, piece}, {},
                [&](AffineExpr turn, ValueRange) {
                  Value place = loadShared(list, evaluator.lower(turn), i32);
                  evaluator.position();
                  place = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), place);
                  addMatch(op, rows, evaluator.variableFor(place, {0, count}));
                  return Values();
                });
           evaluator.position();
           WarpOps{builder, loc}.meetInBlock(); // before the list is written again
           return Values();
         });
  });
}

} // namespace dtc::cuda
