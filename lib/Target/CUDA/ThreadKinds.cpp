// What a thread does in pointwise, columns kernels, and in those of items.
#include "ProductTiles.h"
#include "ThreadEmitter.h"
#include "WarpOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dtc::cuda {

using namespace kernels;

using graph::ReduceOp;
using graph::shapeOf;

/// Rows of a columns kernel that are read before they are added up, and elements of these.
static constexpr int64_t kRowsAtOnce = 8, kColumnElementsAtOnce = 16;

void ThreadEmitter::emitKind() {
  switch (plan.kind) {
  case KernelKind::Pointwise:
    return emitPointwise();
  case KernelKind::Rows:
    return info.joins.empty() ? emitRows() : emitTotals();
  case KernelKind::Columns:
    return emitColumns();
  case KernelKind::Scatter:
    return emitScatter();
  case KernelKind::Buckets:
    return emitBuckets();
  case KernelKind::Scan:
  case KernelKind::Pool:
    return emitItems();
  case KernelKind::Products:
    return emitProducts();
  }
}

/// Both operands may be one tensor, which the kernel then has once.
void ThreadEmitter::emitProducts() {
  auto op = cast<exec::GroupedMatmulOp>(info.ops.front());
  if (!multipliesTiles(op))
    return evaluator.fail(op, "has operands that tensor cores don't multiply, or that can't be "
                              "read 16 bytes at a time");
  SmallVector<Value> pointers;
  for (Value operand : op->getOperands())
    pointers.push_back(arguments[cast<BlockArgument>(operand).getArgNumber()]);
  pointers.push_back(arguments.back());
  evaluator.position();
  emitProductTiles(op, function, pointers, block, thread, builder);
}

static SmallVector<unsigned> allResults(const BodyInfo &info) {
  return llvm::to_vector(llvm::seq<unsigned>(0, info.results.size()));
}

void ThreadEmitter::emitUnit(AffineExpr item) {
  AffineExpr first = math.multiply(item, plan.unit);
  if (plan.turns > 1) {
    const int64_t units = plan.apart / plan.unit;
    Value group = evaluator.lower(math.floorDivide(item, units)),
          own = evaluator.lower(math.modulo(item, units));
    AffineExpr start = evaluator.variableFor(group, {0, plan.items / units});
    first = math.add(math.multiply(start, plan.apart * plan.turns),
                     math.multiply(evaluator.variableFor(own, {0, units}), plan.unit));
  }
  SmallVector<AffineExpr> numbers;
  for (int64_t turn = 0; turn < plan.turns; ++turn)
    for (int64_t i = 0; i < plan.unit; ++i)
      numbers.push_back(math.add(first, turn * plan.apart + i));
  writeResults(allResults(info), numbers);
}

void ThreadEmitter::emitItems() {
  ItemLoops items(builder, evaluator, *this);
  withItem(groupNumber(plan.threads, thread),
           [&](AffineExpr item) { items.emit(info.results[0].getDefiningOp(), item); });
}

// Columns.

Value ThreadEmitter::columnTerm(ReduceOp op, AffineExpr number, AffineExpr row) {
  // The kernel's reductions have as many rows and columns, perhaps in other dimensions.
  const ColumnShape shape = columnShape(op);
  ArrayRef<int64_t> sizes = shapeOf(op.getInput());
  Index source(sizes.size());
  auto place = [&](ArrayRef<int64_t> dims, AffineExpr linear) {
    SmallVector<int64_t> extents = llvm::map_to_vector(dims, [&](int64_t d) { return sizes[d]; });
    for (auto [dim, expr] : llvm::zip(dims, math.delinearize(linear, extents)))
      source[dim] = expr;
  };
  place(shape.outerDims, math.floorDivide(number, shape.columns));
  place(shape.reducedDims, row);
  place(shape.columnDims, math.modulo(number, shape.columns));
  return evaluator.emit(op.getInput(), source);
}

static Type accumulatorType(ReduceOp op) { return computeType(getElementTypeOrSelf(op.getType())); }

ThreadEmitter::Values ThreadEmitter::addColumnRows(AffineExpr unit, ArrayRef<AffineExpr> rows,
                                                   Value valid, ValueRange sums) {
  Values terms;
  for (ReduceOp op : columnReductions)
    for (AffineExpr row : rows)
      for (int64_t i = 0; i < plan.unit; ++i) {
        AffineExpr number = math.add(math.multiply(unit, plan.unit), i);
        Value term = columnTerm(op, number, row);
        terms.push_back(valid ? evaluator.select(valid, term,
                                                 evaluator.identityOf(op.getKind(), term.getType()))
                              : term);
      }
  Values next(sums);
  for (auto [at, term] : llvm::enumerate(terms)) {
    const size_t op = at / (rows.size() * plan.unit);
    Value &sum = next[op * plan.unit + at % plan.unit];
    sum = evaluator.combine(columnReductions[op].getKind(), sum, term);
  }
  return next;
}

/// Puts what reads memory, and the addresses for it, before what is computed of it: a thread asks
/// for all of it before it waits for any.
static void readFirst(Block &block) {
  llvm::SmallPtrSet<Operation *, 32> late;
  SmallVector<Operation *> early;
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      break; // a block that is still being written has none
    const bool isLoad = isa<LLVM::LoadOp>(op);
    bool waits = !isLoad && !isPure(&op);
    for (Value operand : op.getOperands())
      waits |= operand.getDefiningOp() && late.contains(operand.getDefiningOp());
    if (!waits)
      early.push_back(&op);
    if (waits || isLoad)
      late.insert(&op);
    if (!isLoad && !isMemoryEffectFree(&op))
      break; // what comes behind may read what this writes
  }
  Operation *first = &block.front();
  for (Operation *op : early)
    op == first ? void(first = op->getNextNode()) : op->moveBefore(first);
}

void ThreadEmitter::emitPointwise() {
  phase = 1;
  if (info.pieces > 1)
    return emitPieces();
  withItem(groupNumber(plan.threads, thread), [&](AffineExpr item) {
    emitUnit(item);
    if (plan.turns > 1)
      readFirst(*evaluator.blockAt(evaluator.depth()));
  });
}

/// A warp's rows are `slice`, slice + warps, slice + 2 * warps...
ThreadEmitter::Values ThreadEmitter::columnSums(const ColumnShape &shape, AffineExpr unit,
                                                Value slice) {
  int64_t warps = plan.lanes, whole = shape.reduced / warps, rest = shape.reduced % warps;
  AffineExpr own = warps == 1 ? math.constant(0) : evaluator.variableFor(slice, {0, warps});
  Values sums;
  for (ReduceOp op : columnReductions)
    sums.append(plan.unit, evaluator.identityOf(op.getKind(), accumulatorType(op)));
  auto addRows = [&](int64_t first, int64_t count, int64_t atOnce) {
    if (count <= 0)
      return;
    sums = itemLoop({0, count}, sums, [&](AffineExpr step, ValueRange before) {
      SmallVector<AffineExpr> rows;
      for (int64_t i = 0; i < atOnce; ++i) {
        AffineExpr turn = math.add(math.multiply(step, atOnce), first + i);
        rows.push_back(math.add(math.multiply(turn, warps), own));
      }
      return addColumnRows(unit, rows, {}, before);
    });
    readFirst(*sums.front().getDefiningOp<scf::ForOp>().getBody());
  };
  const int64_t atOnce = std::min(kRowsAtOnce, kColumnElementsAtOnce / plan.unit);
  int64_t together = whole / atOnce;
  addRows(0, together, atOnce);
  addRows(together * atOnce, whole % atOnce, 1);
  if (rest == 0)
    return sums;
  // The last rows are of some warps; the others read the last one of all, for nothing.
  Value last = evaluator.lower(math.add(own, whole * warps));
  Value valid = isBelow(last, shape.reduced), most = evaluator.constantInt(shape.reduced - 1);
  evaluator.position();
  last = arith::MinSIOp::create(builder, loc, last, most);
  AffineExpr row = evaluator.variableFor(last, {0, shape.reduced});
  return addColumnRows(unit, {row}, valid, sums);
}

/// An array has the columns of each slice, one after the other.
void ThreadEmitter::keepSums(ArrayRef<Value> arrays, ValueRange sums, Value slice) {
  Value own = evaluator.lower(math.multiply(laneVariable, plan.unit)),
        wide = evaluator.constantInt(kWarp * plan.unit);
  evaluator.position();
  Value place = arith::MulIOp::create(builder, loc, slice, wide);
  place = arith::AddIOp::create(builder, loc, place, own);
  for (auto [at, sum] : llvm::enumerate(sums)) {
    Value column = evaluator.constantInt(at % plan.unit);
    evaluator.position();
    storeShared(arrays[at / plan.unit], arith::AddIOp::create(builder, loc, place, column), sum);
  }
  evaluator.position();
  WarpOps{builder, loc}.meetInBlock();
}

Value ThreadEmitter::addUpSlices(ReduceOp op, Value array, int64_t column) {
  Value sum;
  for (int64_t slice = 0; slice < plan.lanes; ++slice) {
    AffineExpr own = math.add(math.multiply(laneVariable, plan.unit), column);
    Value place = evaluator.lower(math.add(own, slice * kWarp * plan.unit));
    Value term = loadShared(array, place, accumulatorType(op));
    sum = sum ? evaluator.combine(op.getKind(), sum, term) : term;
  }
  return sum;
}

void ThreadEmitter::emitColumns() {
  for (Operation *op : info.ops)
    if (auto reduce = dyn_cast<ReduceOp>(op); reduce && !isSmall(reduce))
      columnReductions.push_back(reduce);
  Value own = threadModulo(kWarp), slice32 = threadOver(kWarp);
  Value unit = groupNumber(kWarp, own), most = evaluator.constantInt(plan.items - 1);
  evaluator.position();
  Value slice = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), slice32);
  lane = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), own);
  laneVariable = evaluator.variableFor(lane, {0, kWarp});
  Value safe = plan.isFull() ? unit : arith::MinSIOp::create(builder, loc, unit, most);
  Values sums = columnSums(columnShape(columnReductions.front()),
                           evaluator.variableFor(safe, {0, plan.items}), slice);
  SmallVector<Value> arrays;
  if (plan.lanes > 1) {
    for (ReduceOp op : columnReductions)
      arrays.push_back(sharedArray(accumulatorType(op), plan.lanes * kWarp * plan.unit));
    keepSums(arrays, sums, slice);
  }
  auto write = [&] {
    phase = 1;
    for (auto [i, op] : llvm::enumerate(columnReductions))
      for (int64_t column = 0; column < plan.unit; ++column)
        columnResults[op].push_back(arrays.empty() ? sums[i * plan.unit + column]
                                                   : addUpSlices(op, arrays[i], column));
    withItem(unit, [&](AffineExpr number) {
      for (int64_t column = 0; column < plan.unit; ++column)
        writtenColumns.push_back(math.add(math.multiply(number, plan.unit), column));
      writeResults(allResults(info), writtenColumns);
    });
  };
  if (plan.lanes == 1)
    return write();
  when(isBelow(slice, 1), write);
}

} // namespace dtc::cuda
