// What a thread does in rows kernels: reductions across the lanes of a row, then its results.
#include "MathFunctions.h"
#include "ThreadEmitter.h"
#include "WarpOps.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace dtc::cuda {

using namespace kernels;

using graph::ReduceOp;
using graph::shapeOf;

/// Elements of a row, and units of several, that a thread reads before it does anything else with
/// them.
static constexpr int64_t kElementsAtOnce = 16, kUnitsAtOnce = 4;

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
    own.push_back({math.multiply(number, unit), unit, valid});
  }
  return own;
}

ThreadEmitter::Values ThreadEmitter::forEachUnit(int64_t columns, ValueRange initial,
                                                 UnitsBody body) {
  Values current(initial);
  if (staysInRegisters(columns)) {
    for (const ColumnUnit &unit : unitsOf(columns))
      current = body(unit, current);
    return current;
  }
  auto open = [&](ArrayRef<ColumnUnit> some, ValueRange values) {
    openUnits = some;
    openColumns = columns;
    Values results = body(some, values);
    openUnits = {};
    return results;
  };
  const int64_t unit = plan.shifted ? plan.unit : unitOf(columns);
  const int64_t count = plan.shifted ? (columns - unit + 1) / unit : columns / unit;
  const int64_t atOnce = unit > 1 ? kUnitsAtOnce : kElementsAtOnce, step = atOnce * plan.lanes;
  const int64_t whole = count / step * step;
  auto unitAt = [&](AffineExpr number) {
    return ColumnUnit{math.add(math.multiply(number, unit), columnsAhead), unit};
  };
  if (whole > 0)
    current = loop(lane, evaluator.constantInt(whole), step, {0, whole - step + plan.lanes},
                   current, [&](AffineExpr number, ValueRange values) {
                     SmallVector<ColumnUnit> together;
                     for (int64_t i = 0; i < atOnce; ++i)
                       together.push_back(unitAt(math.add(number, i * plan.lanes)));
                     return open(together, values);
                   });
  if (whole < count)
    current = loop(evaluator.lower(math.add(laneVariable, whole)), evaluator.constantInt(count),
                   plan.lanes, {whole, count}, current, [&](AffineExpr number, ValueRange values) {
                     return open(unitAt(number), values);
                   });
  return plan.shifted ? forEachRest(columns, count * unit, current, open) : current;
}

ThreadEmitter::Values ThreadEmitter::forEachRest(int64_t columns, int64_t whole, ValueRange initial,
                                                 UnitsBody body) {
  return loop(lane, evaluator.constantInt(columns - whole), plan.lanes, {0, columns - whole},
              initial, [&](AffineExpr number, ValueRange values) {
                Value before = evaluator.lower(number), ahead = evaluator.lower(columnsAhead),
                      behind = evaluator.lower(math.add(number, whole));
                evaluator.position();
                Value isAhead =
                    arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, before, ahead);
                Value column = evaluator.select(isAhead, before, behind);
                return body(ColumnUnit{evaluator.variableFor(column, {0, columns}), 1}, values);
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
  columnsAhead = math.constant(0);
  if (plan.shifted) {
    const int64_t columns =
        elementsOf(ReduceOp(reductionGroups(info, plan.items)[0][0]).getInput()) / plan.items;
    AffineExpr ahead = math.modulo(math.multiply(row, plan.unit - columns % plan.unit), plan.unit);
    columnsAhead = evaluator.variableFor(evaluator.lower(ahead), {0, plan.unit});
  }
  const auto groups = reductionGroups(info, plan.items);
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i + 1 < groups.size() && sumsExponentials(groups[i], groups[i + 1]))
      emitRowExponentials(row, groups[i].front(), groups[i + 1].front()), ++i;
    else
      emitRowReductions(row, groups[i]);
    isFirstPass = false;
  }
  meetBeforeWriting();
  emitRowResults(row);
}

Value ThreadEmitter::rowTerm(ReduceOp op, const Index &index, AffineExpr column, Value valid) {
  Value term = evaluator.emit(op.getInput(), evaluator.reductionSource(op, index, column));
  if (!valid)
    return term;
  return evaluator.select(valid, term, evaluator.identityOf(op.getKind(), term.getType()));
}

ThreadEmitter::Values ThreadEmitter::rowTerms(ReduceOp op, const Index &index,
                                              ArrayRef<ColumnUnit> units) {
  Values terms;
  for (const ColumnUnit &unit : units)
    for (int64_t i = 0; i < unit.width; ++i)
      terms.push_back(rowTerm(op, index, math.add(unit.first, i), unit.valid));
  return terms;
}

Value ThreadEmitter::addUpTerms(ReduceOp op, Value sum, ValueRange terms) {
  for (Value term : terms)
    sum = evaluator.combine(op.getKind(), sum, term);
  return sum;
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
  auto addUnits = [&](ArrayRef<ColumnUnit> units, ValueRange before) {
    keepUnits();
    Values next(before);
    for (auto [op, index, sum] : llvm::zip(group, indices, next))
      sum = addUpTerms(op, sum, rowTerms(op, index, units));
    return next;
  };
  Values results = acrossLanes(group, forEachUnit(columns, initial, addUnits));
  for (auto [op, index, value] : llvm::zip(group, indices, results)) {
    ReduceOp reduce = op;
    evaluator.remember(reduce.getResult(), index, value);
  }
}

// Maxima and sums of exponentials in one pass.

/// What is subtracted in exp(x - y), where that is what is summed and y is the maximum, but 0 where
/// that is -infinity. Null where it is anything else.
static Value subtractedFromTerms(ReduceOp maximum, ReduceOp sum) {
  auto exponential = sum.getInput().getDefiningOp<math::ExpOp>();
  auto difference = exponential ? exponential.getOperand().getDefiningOp<arith::SubFOp>() : nullptr;
  auto spread = difference ? difference.getRhs().getDefiningOp<graph::BroadcastOp>() : nullptr;
  auto choice = spread ? spread.getInput().getDefiningOp<arith::SelectOp>() : nullptr;
  auto isEmpty = choice ? choice.getCondition().getDefiningOp<arith::CmpFOp>() : nullptr;
  Value most = maximum.getResult();
  const bool isBounded = isEmpty && isEmpty.getPredicate() == arith::CmpFPredicate::OEQ &&
                         isEmpty.getLhs() == most && choice.getFalseValue() == most;
  if (!isBounded || !getElementTypeOrSelf(most).isF32())
    return {};
  SmallVector<Value> independent{difference.getLhs()};
  for (size_t i = 0; i < independent.size(); ++i) {
    if (independent[i] == most)
      return {};
    if (Operation *op = independent[i].getDefiningOp())
      llvm::append_range(independent, op->getOperands());
  }
  return choice.getResult();
}

bool ThreadEmitter::sumsExponentials(ArrayRef<ReduceOp> maxima, ArrayRef<ReduceOp> sums) const {
  ReduceOp maximum = maxima.front(), sum = sums.front();
  return maxima.size() == 1 && sums.size() == 1 && plan.items > 1 && plan.lanes > 1 &&
         maximum.getKind() == graph::ReduceKind::Max && sum.getKind() == graph::ReduceKind::Sum &&
         shapeOf(maximum.getInput()) == shapeOf(sum.getInput()) &&
         maximum.getDims() == sum.getDims() &&
         !staysInRegisters(elementsOf(maximum.getInput()) / plan.items) &&
         subtractedFromTerms(maximum, sum);
}

/// Of a row that is read again by each pass. A thread keeps the maximum so far and the sum of what
/// is below it; where the maximum grows, the sum shrinks by as much.
void ThreadEmitter::emitRowExponentials(AffineExpr row, ReduceOp maximum, ReduceOp sum) {
  phase = 0;
  Value subtracted = subtractedFromTerms(maximum, sum), number = evaluator.lower(row);
  auto indexOf = [&](Value value, AffineExpr at) { return math.delinearize(at, shapeOf(value)); };
  auto shrink = [&](Value total, Value before, Value after) {
    Value zero = evaluator.identityOf(graph::ReduceKind::Sum, total.getType());
    evaluator.position();
    Value difference = arith::SubFOp::create(builder, loc, before, after);
    difference = arith::MinimumFOp::create(builder, loc, difference, zero);
    return arith::MulFOp::create(builder, loc, total, shortExponential(builder, loc, difference));
  };
  // Under another name of the row nothing is taken for the row's own that is so only by now.
  auto subtractedOf = [&](Value most) {
    AffineExpr here = evaluator.variableFor(number, {0, plan.items});
    evaluator.remember(maximum.getResult(), indexOf(maximum.getResult(), here), most);
    return evaluator.emit(subtracted, indexOf(subtracted, here));
  };
  auto addUnits = [&](ArrayRef<ColumnUnit> units, ValueRange before) {
    AffineExpr here = rowVariable = evaluator.variableFor(number, {0, plan.items});
    keepUnits();
    const Index index = indexOf(maximum.getResult(), here);
    Value most = addUpTerms(maximum, before[0], rowTerms(maximum, index, units));
    evaluator.remember(maximum.getResult(), index, most);
    Value total = shrink(before[1], subtractedOf(before[0]),
                         evaluator.emit(subtracted, indexOf(subtracted, here)));
    total = addUpTerms(sum, total, rowTerms(sum, indexOf(sum.getResult(), here), units));
    rowVariable = row;
    return Values{most, total};
  };
  Type scalar = computeType(getElementTypeOrSelf(maximum.getType()));
  Values initial{evaluator.identityOf(maximum.getKind(), scalar),
                 evaluator.identityOf(sum.getKind(), scalar)};
  Values found = forEachUnit(elementsOf(maximum.getInput()) / plan.items, initial, addUnits);
  Value most = acrossLanes(maximum, {found[0]})[0];
  evaluator.remember(maximum.getResult(), indexOf(maximum.getResult(), row), most);
  Value total = shrink(found[1], subtractedOf(found[0]),
                       evaluator.emit(subtracted, indexOf(subtracted, row)));
  evaluator.remember(sum.getResult(), indexOf(sum.getResult(), row), acrossLanes(sum, {total})[0]);
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
      value = evaluator.combine(op.getKind(), value, other);
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
      value = value ? evaluator.combine(reduce.getKind(), value, term) : term;
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
    forEachUnit(group.columns, {}, [&](ArrayRef<ColumnUnit> units, ValueRange) {
      SmallVector<AffineExpr> numbers;
      for (const ColumnUnit &unit : units)
        for (int64_t i = 0; i < unit.width; ++i)
          numbers.push_back(math.add(math.add(math.multiply(row, group.columns), unit.first), i));
      auto write = [&] { writeResults(group.results, numbers); };
      if (units.front().valid) // of a row that stays in registers, one at a time
        when(units.front().valid, write);
      else
        write();
      return Values();
    });
  }
}

} // namespace dtc::cuda
