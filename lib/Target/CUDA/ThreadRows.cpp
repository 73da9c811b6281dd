// What a thread does in rows kernels: reductions across the lanes of a row, then its results.
#include "ThreadEmitter.h"
#include "WarpOps.h"

using namespace mlir;

namespace dtc::cuda {

using namespace kernels;

using graph::ReduceOp;
using graph::shapeOf;

bool ThreadEmitter::staysInRegisters(int64_t columns) const {
  int64_t unit = unitOf(columns);
  return ceilDivide(columns / unit, plan.lanes) * unit <= kMostInRegisters;
}

ArrayRef<ThreadEmitter::ColumnUnit> ThreadEmitter::unitsOf(int64_t columns) {
  SmallVector<ColumnUnit> &own = units[columns];
  if (!own.empty())
    return own;
  int64_t unit = unitOf(columns), count = columns / unit;
  for (int64_t low = 0; low < count; low += plan.lanes) {
    AffineExpr number = laneVariable ? math.add(laneVariable, low) : math.constant(low);
    Value valid;
    if (low + plan.lanes > count) {
      // Lanes beyond the last unit read that one, for nothing.
      Value value = evaluator.lower(number), most = evaluator.constantInt(count - 1);
      valid = isBelow(value, count);
      evaluator.position();
      value = arith::MinSIOp::create(builder, loc, value, most);
      number = evaluator.variableFor(value, {0, count});
    }
    own.push_back({math.multiply(number, unit), valid});
  }
  return own;
}

ThreadEmitter::Values
ThreadEmitter::forEachUnit(int64_t columns, ValueRange initial,
                           llvm::function_ref<Values(ColumnUnit, ValueRange)> body) {
  Values current(initial);
  if (staysInRegisters(columns)) {
    for (const ColumnUnit &unit : unitsOf(columns))
      current = body(unit, current);
    return current;
  }
  int64_t unit = unitOf(columns), count = columns / unit;
  return loop(lane, evaluator.constantInt(count), plan.lanes, {0, count}, current,
              [&](AffineExpr number, ValueRange values) {
                return body({math.multiply(number, unit), {}}, values);
              });
}

void ThreadEmitter::emitRows() {
  if (plan.lanes == 1)
    return withItem(groupNumber(plan.threads, thread), [&](AffineExpr row) { emitRow(row); });
  Value row = plan.lanes > kWarp ? groupNumber(1, Value())
                                 : groupNumber(plan.itemsInBlock(), threadOver(kWarp));
  Value own = plan.lanes > kWarp ? thread : threadModulo(kWarp);
  evaluator.position();
  lane = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), own);
  // All lanes of a warp have the same row, so that they stay together.
  withItem(row, [&](AffineExpr item) {
    laneVariable = evaluator.variableFor(lane, {0, plan.lanes});
    emitRow(item);
  });
}

void ThreadEmitter::emitRow(AffineExpr row) {
  rowVariable = row;
  for (const std::vector<ReduceOp> &group : reductionGroups(info, plan.items))
    emitRowReductions(row, group);
  meetBeforeWriting();
  emitRowResults(row);
}

Value ThreadEmitter::rowTerm(ReduceOp op, const Index &index, AffineExpr column, Value valid) {
  Value term = evaluator.emit(op.getInput(), evaluator.reductionSource(op, index, column));
  if (!valid)
    return term;
  return evaluator.select(valid, term, evaluator.identityOf(op.getKind(), term.getType()));
}

void ThreadEmitter::emitRowReductions(AffineExpr row, ArrayRef<ReduceOp> group) {
  phase = 0;
  int64_t columns = elementsOf(ReduceOp(group.front()).getInput()) / plan.items;
  Values initial;
  SmallVector<Index> indices;
  for (ReduceOp op : group) {
    initial.push_back(
        evaluator.identityOf(op.getKind(), computeType(getElementTypeOrSelf(op.getType()))));
    indices.push_back(math.delinearize(row, shapeOf(op.getResult())));
  }
  auto addUnit = [&](ColumnUnit unit, ValueRange before) {
    Values next(before);
    for (auto [op, index, sum] : llvm::zip(group, indices, next)) {
      ReduceOp reduce = op;
      Values terms;
      for (int64_t i = 0; i < unitOf(columns); ++i)
        terms.push_back(rowTerm(reduce, index, math.add(unit.first, i), unit.valid));
      for (Value term : terms)
        sum = evaluator.combine(reduce.getKind(), sum, term, /*reorder=*/false);
    }
    return next;
  };
  Values results = acrossLanes(group, forEachUnit(columns, initial, addUnit));
  for (auto [op, index, value] : llvm::zip(group, indices, results)) {
    ReduceOp reduce = op;
    evaluator.remember(reduce.getResult(), index, value);
  }
}

/// Within a warp by exchanges in pairs, which leave the same sum in every lane. Among warps it goes
/// through memory of the block, where each warp leaves one.
ThreadEmitter::Values ThreadEmitter::acrossLanes(ArrayRef<ReduceOp> ops, Values values) {
  if (plan.lanes == 1)
    return values;
  auto acrossWarp = [&](ReduceOp op, Value value) {
    for (int32_t mask = kWarp / 2; mask > 0; mask /= 2) {
      evaluator.position();
      Value other = WarpOps{builder, loc}.shuffleXor(value, mask);
      value = evaluator.combine(op.getKind(), value, other, /*reorder=*/false);
    }
    return value;
  };
  for (auto [op, value] : llvm::zip(ops, values))
    value = acrossWarp(op, value);
  int64_t warps = plan.lanes / kWarp;
  if (warps == 1)
    return values;
  SmallVector<Value> arrays;
  for (Value value : values)
    arrays.push_back(sharedArray(value.getType(), warps));
  Value own = threadModulo(kWarp), warp = threadOver(kWarp);
  Value none = evaluator.constant(builder.getI32IntegerAttr(0));
  evaluator.position();
  Value isFirst = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, own, none);
  when(isFirst, [&] {
    for (auto [array, value] : llvm::zip(arrays, values))
      storeShared(array, warp, value);
  });
  evaluator.position();
  WarpOps{builder, loc}.meetInBlock();
  for (auto [op, array, value] : llvm::zip(ops, arrays, values)) {
    ReduceOp reduce = op;
    Type scalar = value.getType();
    value = {};
    for (int64_t i = 0; i < warps; ++i) {
      Value term = loadShared(array, evaluator.constant(builder.getI32IntegerAttr(i)), scalar);
      value = value ? evaluator.combine(reduce.getKind(), value, term, /*reorder=*/false) : term;
    }
  }
  return values;
}

void ThreadEmitter::meetBeforeWriting() {
  bool overwrites = llvm::any_of(plan.inPlace, [](int64_t operand) { return operand >= 0; });
  if (plan.lanes != kWarp || !overwrites)
    return; // several warps have met when they reduced
  evaluator.position();
  WarpOps{builder, loc}.meet();
}

void ThreadEmitter::emitRowScalars(AffineExpr row, ArrayRef<unsigned> results) {
  if (plan.lanes == 1)
    return writeResults(results, {row});
  // All lanes read what the first one writes: no element is its own.
  Values values;
  for (unsigned result : results)
    values.push_back(evaluator.emitStored(info.results[result],
                                          math.delinearize(row, shapeOf(info.results[result]))));
  when(isBelow(lane, 1), [&] {
    for (auto [result, value] : llvm::zip(results, values))
      storeAt(result, row, value);
  });
}

void ThreadEmitter::emitRowResults(AffineExpr row) {
  for (const OutputGroup &group : outputGroups(info, plan.items)) {
    ++phase;
    if (group.columns == 1) {
      emitRowScalars(row, group.results);
      continue;
    }
    forEachUnit(group.columns, {}, [&](ColumnUnit unit, ValueRange) {
      SmallVector<AffineExpr> numbers;
      AffineExpr first = math.add(math.multiply(row, group.columns), unit.first);
      for (int64_t i = 0; i < unitOf(group.columns); ++i)
        numbers.push_back(math.add(first, i));
      auto write = [&] { writeResults(group.results, numbers); };
      if (unit.valid)
        when(unit.valid, write);
      else
        write();
      return Values();
    });
  }
}

} // namespace dtc::cuda
