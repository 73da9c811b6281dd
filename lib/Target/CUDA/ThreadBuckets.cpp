// What a thread does in kernels that sort indices into buckets, and where scatter kernels read
// these.
//
// A block sorts a part of the indices, of which each warp has neighbouring ones. There are
// counters for each bucket and warp:
//
//     for each 32 indices of the warp      lanes with one bucket find each other
//       rank := counter + lanes before this one with the same bucket
//       counter += lanes with the same bucket
//     counters := sums of those before     bucket by bucket, and in these warp by warp
//     entries[counter + rank] := the index
//
// Nothing is added up atomically, and what is in a bucket keeps the order of the indices.
#include "ThreadEmitter.h"
#include "WarpOps.h"

using namespace mlir;

namespace dtc::cuda {

using namespace kernels;

using graph::shapeOf;

/// Indices of a thread at most, which stay in its registers.
static constexpr int64_t kMostKeys = 16;
/// Bytes of counters, of the 48 KiB that a block has.
static constexpr int64_t kMostCounterBytes = 40 * 1024;
/// Entries of a bucket that a thread lists before all are added up.
static constexpr int64_t kEntriesAtOnce = 8;

Value ThreadEmitter::plus(Value a, Value b) {
  evaluator.position();
  return arith::AddIOp::create(builder, loc, a, b);
}

Value ThreadEmitter::times(Value a, int64_t factor) {
  Value b = integer(factor);
  evaluator.position();
  return arith::MulIOp::create(builder, loc, a, b);
}

Value ThreadEmitter::wide(Value number) {
  evaluator.position();
  return arith::ExtUIOp::create(builder, loc, builder.getI64Type(), number);
}

Value ThreadEmitter::narrow(Value number) {
  evaluator.position();
  return arith::TruncIOp::create(builder, loc, builder.getI32Type(), number);
}

Value ThreadEmitter::is(arith::CmpIPredicate predicate, Value a, Value b) {
  evaluator.position();
  return arith::CmpIOp::create(builder, loc, predicate, a, b);
}

ThreadEmitter::Sums ThreadEmitter::sumsOverWarps(Value ofWarps, Sums sums) {
  Value warp = threadOver(kWarp), none = integer(0);
  for (int64_t i = 0; i < plan.threads / kWarp; ++i) {
    Value number = integer(i), own = loadShared(ofWarps, number, builder.getI32Type());
    Value isBefore = is(arith::CmpIPredicate::ugt, warp, number);
    sums.all = plus(sums.all, own);
    sums.before = plus(sums.before, evaluator.select(isBefore, own, none));
  }
  return sums;
}

/// Lanes exchange with those that are 1, 2, 4, ... apart what they and their neighbours have.
ThreadEmitter::Sums ThreadEmitter::sumsOverThreads(Value own, Value ofWarps) {
  Value warp = threadOver(kWarp), inWarp = threadModulo(kWarp), none = integer(0);
  Sums sums{none, own};
  for (int32_t apart = 1; apart < kWarp; apart *= 2) {
    Value bit = integer(apart);
    evaluator.position();
    Value other = WarpOps{builder, loc}.shuffleXor(sums.all, apart);
    bit = arith::AndIOp::create(builder, loc, inWarp, bit);
    Value isBehind = is(arith::CmpIPredicate::ne, bit, none);
    sums.before = plus(sums.before, evaluator.select(isBehind, other, none));
    sums.all = plus(sums.all, other);
  }
  when(is(arith::CmpIPredicate::eq, inWarp, none), [&] { storeShared(ofWarps, warp, sums.all); });
  evaluator.position();
  WarpOps{builder, loc}.meetInBlock();
  return sumsOverWarps(ofWarps, {sums.before, none});
}

// Sorting.

SmallVector<ThreadEmitter::BucketKey> ThreadEmitter::readKeys(graph::BucketIndicesOp op,
                                                              AffineExpr number) {
  ArrayRef<int64_t> indexShape = shapeOf(op.getIndices());
  const int64_t count = IndexMath::numElements(indexShape), part = op.getPart(),
                bucketRows = static_cast<int64_t>(op.getBucketRows());
  SmallVector<BucketKey> keys(ceilDivide(part, plan.threads));
  const auto ofWarp = static_cast<int64_t>(keys.size()) * kWarp;
  Value most = evaluator.constantInt(count - 1), own = threadModulo(kWarp);
  Value first = plus(times(threadOver(kWarp), ofWarp), own);
  for (auto [i, key] : llvm::enumerate(keys)) {
    key.place = plus(first, integer(static_cast<int64_t>(i) * kWarp));
    Value place = wide(key.place);
    AffineExpr inPart = evaluator.variableFor(place, {0, ofWarp * plan.threads / kWarp});
    Value among = evaluator.lower(math.add(math.multiply(number, part), inPart));
    Value exists = isBelow(among, count);
    key.hasRoom = part % plan.threads ? isBelow(place, part) : Value();
    evaluator.position();
    Value safe = arith::MinSIOp::create(builder, loc, among, most);
    AffineExpr element = evaluator.variableFor(safe, {0, count});
    auto [row, isValid] = evaluator.checkedIndex(
        op.getIndices(), math.delinearize(element, indexShape), op.getRows());
    Value bucket = narrow(evaluator.lower(math.floorDivide(row, bucketRows))),
          inBucket = narrow(evaluator.lower(math.modulo(row, bucketRows)));
    Value entry = plus(times(inBucket, part), key.place);
    evaluator.position();
    Value isThere = arith::AndIOp::create(builder, loc, isValid, exists);
    if (key.hasRoom)
      isThere = arith::AndIOp::create(builder, loc, isThere, key.hasRoom);
    key.bucket = evaluator.select(isThere, bucket, integer(op.getBuckets()));
    key.entry = evaluator.select(isThere, entry, integer(-1));
  }
  return keys;
}

Value ThreadEmitter::counterOf(Value bucket) {
  return plus(times(bucket, plan.threads / kWarp), threadOver(kWarp));
}

void ThreadEmitter::rankKeys(MutableArrayRef<BucketKey> keys, Value counters) {
  Value one = integer(1), inWarp = threadModulo(kWarp);
  evaluator.position();
  Value below = arith::ShLIOp::create(builder, loc, one, inWarp);
  below = arith::SubIOp::create(builder, loc, below, one);
  for (BucketKey &key : keys) {
    Value counter = counterOf(key.bucket);
    evaluator.position();
    Value same = WarpOps{builder, loc}.match(key.bucket);
    Value ahead = arith::AndIOp::create(builder, loc, same, below);
    ahead = math::CtPopOp::create(builder, loc, ahead);
    Value alike = math::CtPopOp::create(builder, loc, same);
    key.rank = plus(loadShared(counters, counter, builder.getI32Type()), ahead);
    Value next = plus(key.rank, one),
          isLast = is(arith::CmpIPredicate::eq, plus(ahead, one), alike);
    evaluator.position();
    WarpOps{builder, loc}.meet();
    when(isLast, [&] { storeShared(counters, counter, next); });
    evaluator.position();
    WarpOps{builder, loc}.meet();
  }
}

/// A thread has neighbouring counters.
void ThreadEmitter::addUpCounters(Value counters, int64_t count) {
  const int64_t own = count / plan.threads;
  Type i32 = builder.getI32Type();
  Value ofWarps = sharedArray(i32, plan.threads / kWarp);
  AffineExpr first = math.multiply(laneVariable, own);
  auto overCounters = [&](Value initial, llvm::function_ref<Value(Value, Value)> next) {
    return itemLoop({0, own}, initial, [&](AffineExpr i, ValueRange sum) {
      return Values{next(evaluator.lower(math.add(first, i)), sum[0])};
    })[0];
  };
  Value sum = overCounters(integer(0), [&](Value at, Value before) {
    return plus(before, loadShared(counters, at, i32));
  });
  overCounters(sumsOverThreads(sum, ofWarps).before, [&](Value at, Value before) {
    Value counted = loadShared(counters, at, i32);
    storeShared(counters, at, before);
    return plus(before, counted);
  });
  evaluator.position();
  WarpOps{builder, loc}.meetInBlock();
}

void ThreadEmitter::emitBuckets() {
  auto op = cast<graph::BucketIndicesOp>(info.results[0].getDefiningOp());
  const int64_t begins = op.getBuckets() + 1, width = begins + op.getPart(),
                warps = plan.threads / kWarp,
                counted = ceilDivide(begins * warps, plan.threads) * plan.threads;
  if (op.getPart() > kMostKeys * plan.threads || counted * 4 > kMostCounterBytes)
    return evaluator.fail(op,
                          "a kernel can't sort so many indices of a part, or into so many buckets");
  Type i32 = builder.getI32Type();
  Value counters = sharedArray(i32, counted);
  lane = wide(thread);
  laneVariable = evaluator.variableFor(lane, {0, plan.threads});
  withItem(groupNumber(1, Value()), [&](AffineExpr number) {
    loop(lane, evaluator.constantInt(counted), plan.threads, {0, counted}, {},
         [&](AffineExpr at, ValueRange) {
           storeShared(counters, evaluator.lower(at), integer(0));
           return Values();
         });
    SmallVector<BucketKey> keys = readKeys(op, number);
    evaluator.position();
    WarpOps{builder, loc}.meetInBlock();
    rankKeys(keys, counters);
    evaluator.position();
    WarpOps{builder, loc}.meetInBlock();
    addUpCounters(counters, counted);
    phase = 1;
    AffineExpr first = math.multiply(number, width);
    loop(lane, evaluator.constantInt(begins), plan.threads, {0, begins}, {},
         [&](AffineExpr bucket, ValueRange) {
           Value at = evaluator.lower(math.multiply(bucket, warps));
           storeAt(0, math.add(first, bucket), loadShared(counters, at, i32));
           return Values();
         });
    for (const BucketKey &key : keys) {
      Value before = loadShared(counters, counterOf(key.bucket), i32);
      auto store = [&] {
        AffineExpr at = evaluator.variableFor(wide(plus(before, key.rank)), {0, op.getPart()});
        storeAt(0, math.add(math.add(first, begins), at), key.entry);
      };
      key.hasRoom ? when(key.hasRoom, store) : store();
    }
  });
}

// Reading.

/// Of the parts from `first` on, a thread has one: where the block's bucket is there.
Value ThreadEmitter::findInParts(graph::ScatterAddOp op, AffineExpr block, AffineExpr first,
                                 const BucketParts &parts) {
  const int64_t count = shapeOf(op.getBuckets()).front();
  Value own = evaluator.lower(math.add(first, laneVariable)),
        last = evaluator.constantInt(count - 1);
  Value isListed = isBelow(lane, parts.count), exists = isBelow(own, count);
  evaluator.position();
  exists = arith::AndIOp::create(builder, loc, exists, isListed);
  own = arith::MinSIOp::create(builder, loc, own, last);
  AffineExpr part = evaluator.variableFor(own, {0, count});
  Value begin = evaluator.emit(op.getBuckets(), {part, block}),
        end = evaluator.emit(op.getBuckets(), {part, math.add(block, 1)});
  evaluator.position();
  Value found = arith::SubIOp::create(builder, loc, end, begin);
  Sums sums = sumsOverThreads(evaluator.select(exists, found, integer(0)), parts.ofWarps);
  evaluator.position();
  begin = arith::SubIOp::create(builder, loc, begin, sums.before);
  when(isListed, [&] {
    storeShared(parts.before, thread, sums.before);
    storeShared(parts.begin, thread, begin);
  });
  evaluator.position();
  WarpOps{builder, loc}.meetInBlock();
  return wide(sums.all);
}

/// The last part before which there are no more entries than before this one.
Value ThreadEmitter::partOfEntry(Value entry, const BucketParts &parts) {
  Value part = integer(0);
  for (int64_t step = parts.count / 2; step > 0; step /= 2) {
    Value next = plus(part, integer(step));
    Value before = loadShared(parts.before, next, builder.getI32Type());
    part = evaluator.select(is(arith::CmpIPredicate::ule, before, entry), next, part);
  }
  return part;
}

void ThreadEmitter::listEntry(graph::ScatterAddOp op, AffineExpr first, const BucketParts &parts,
                              AffineExpr entry, AffineExpr place, const MatchList &list) {
  ArrayRef<int64_t> shape = shapeOf(op.getBuckets());
  const int64_t size = shapeOf(op.getResult())[0], begins = ceilDivide(size, plan.lanes) + 1,
                part = shape[1] - begins;
  Type i32 = builder.getI32Type();
  Value number = narrow(evaluator.lower(entry)), listed = partOfEntry(number, parts);
  Value at = plus(loadShared(parts.begin, listed, i32), number);
  AffineExpr among = math.add(first, evaluator.variableFor(wide(listed), {0, parts.count}));
  AffineExpr column = math.add(evaluator.variableFor(wide(at), {0, part}), begins);
  Value found = wide(evaluator.emit(op.getBuckets(), {among, column}));
  AffineExpr code = evaluator.variableFor(found, {0, plan.lanes * part});
  Value row = narrow(evaluator.lower(math.floorDivide(code, part)));
  AffineExpr index = math.add(math.multiply(among, part), math.modulo(code, part));
  Value to = evaluator.lower(place);
  storeShared(list.places, to, narrow(evaluator.lower(index)));
  storeShared(list.rows, to, row);
}

void ThreadEmitter::addBuckets(graph::ScatterAddOp op, TableRows rows, AffineExpr block) {
  const int64_t count = shapeOf(op.getBuckets()).front(), most = elementsOf(op.getIndices()),
                atOnce = std::min<int64_t>(llvm::PowerOf2Ceil(count),
                                           llvm::bit_floor<uint64_t>(plan.threads));
  Type i32 = builder.getI32Type();
  BucketParts parts{atOnce, sharedArray(i32, atOnce), sharedArray(i32, atOnce),
                    sharedArray(i32, plan.threads / kWarp)};
  MatchList list = matchList(plan.threads * kEntriesAtOnce);
  Value none = evaluator.constantInt(0);
  loop(none, evaluator.constantInt(count), atOnce, {0, count}, {},
       [&](AffineExpr first, ValueRange) {
         Value total = findInParts(op, block, first, parts);
         loop(none, total, list.room, {0, most}, {}, [&](AffineExpr entry, ValueRange) {
           Value room = evaluator.constantInt(list.room), begun = evaluator.lower(entry);
           evaluator.position();
           Value left = arith::SubIOp::create(builder, loc, total, begun);
           left = arith::MinSIOp::create(builder, loc, left, room);
           loop(lane, left, plan.threads, {0, list.room}, {}, [&](AffineExpr place, ValueRange) {
             listEntry(op, first, parts, math.add(entry, place), place, list);
             return Values();
           });
           evaluator.position();
           WarpOps{builder, loc}.meetInBlock();
           addMatches(op, rows, list, left);
           evaluator.position();
           WarpOps{builder, loc}.meetInBlock();
           return Values();
         });
         evaluator.position();
         WarpOps{builder, loc}.meetInBlock();
         return Values();
       });
}

} // namespace dtc::cuda
