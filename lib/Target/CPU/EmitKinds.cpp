// The loops of pointwise, rows and columns kernels.
#include "LoopEmitter.h"

using namespace mlir;

namespace dtc::cpu {

using namespace kernels;

using graph::shapeOf;

/// Rows that are added up before the accumulators are touched.
static constexpr int64_t kRowsAtOnce = 4;

void LoopEmitter::emitKind() {
  switch (plan.kind) {
  case KernelKind::Pointwise:
    return emitPointwise();
  case KernelKind::Rows:
    return emitRows();
  case KernelKind::Columns:
    return emitColumns();
  case KernelKind::Scatter:
    return emitScatter();
  case KernelKind::Buckets: // refused before, and products, too
  case KernelKind::Products:
  case KernelKind::Scan:
  case KernelKind::Pool:
    return emitItems();
  }
}

void LoopEmitter::writeResults(ArrayRef<unsigned> results, AffineExpr number) {
  writtenElement = number;
  Values values;
  for (unsigned result : results)
    values.push_back(evaluator.emitStored(info.results[result],
                                          math.delinearize(number, shapeOf(info.results[result]))));
  for (auto [result, value] : llvm::zip(results, values))
    storeAt(result, number, value);
  writtenElement = {};
}

void LoopEmitter::emitPointwise() {
  SmallVector<unsigned> all = llvm::to_vector(llvm::seq<unsigned>(0, info.results.size()));
  LoopId id{LoopId::Output, 0};
  unsigned last = plan.loops.at(id).extents.size() - 1;
  phase = 1;
  if (last == 0)
    return mainLoop([&](AffineExpr element) { writeResults(all, element); }, true, id);
  mainLoop([&](AffineExpr row) {
    auto body = [&](AffineExpr element, Accumulators) {
      writeResults(all, element);
      return Values();
    };
    nestFrom(id, last, row, {}, body, /*parallel=*/true);
  });
}

// Rows.

void LoopEmitter::emitRows() {
  if (plan.rows == 1)
    return emitRow(math.constant(0));
  mainLoop([&](AffineExpr row) { emitRow(row); });
}

void LoopEmitter::emitRow(AffineExpr row) {
  rowVariable = row;
  emitRowReductions(row);
  emitRowOutputs(row);
}

void LoopEmitter::emitRowReductions(AffineExpr row) {
  phase = 0;
  for (const std::vector<graph::ReduceOp> &group : reductionGroups(info, plan.rows)) {
    graph::ReduceOp first = group.front();
    Index index = math.delinearize(row, shapeOf(first.getResult()));
    storesStashes = true;
    Values results = reduceTogether(group, index);
    storesStashes = false;
    stashedOps.insert(pendingStashes.begin(), pendingStashes.end());
    pendingStashes.clear();
    for (auto [op, value] : llvm::zip(group, results)) {
      graph::ReduceOp reduce = op;
      evaluator.remember(reduce.getResult(), index, value);
    }
  }
}

void LoopEmitter::emitRowOutputs(AffineExpr row) {
  std::vector<OutputGroup> groups = outputGroups(info, plan.rows);
  SmallVector<unsigned> scalars;
  Values scalarValues;
  for (const OutputGroup &group : groups)
    if (group.columns == 1)
      for (unsigned result : group.results) {
        scalars.push_back(result);
        scalarValues.push_back(evaluator.emitStored(
            info.results[result], math.delinearize(row, shapeOf(info.results[result]))));
      }
  for (auto [number, group] : llvm::enumerate(groups)) {
    if (group.columns == 1)
      continue;
    phase = number + 1;
    storesStashes = true;
    nest(
        {LoopId::Output, static_cast<unsigned>(number)}, {},
        [&, columns = group.columns, &results = group.results](AffineExpr column, Accumulators) {
          columnNumber = column;
          writeResults(results, math.add(math.multiply(row, columns), column));
          columnNumber = {};
          return Values();
        },
        /*parallel=*/true);
    storesStashes = false;
    stashedOps.insert(pendingStashes.begin(), pendingStashes.end());
    pendingStashes.clear();
  }
  phase = groups.size() + 1;
  for (auto [result, value] : llvm::zip(scalars, scalarValues))
    storeAt(result, row, value);
}

// Columns.

Index LoopEmitter::columnSource(graph::ReduceOp op, const ColumnBlock &block, AffineExpr row,
                                AffineExpr column) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  Index source(shape.size());
  auto place = [&](ArrayRef<int64_t> dims, AffineExpr number) {
    SmallVector<int64_t> sizes;
    for (int64_t dim : dims)
      sizes.push_back(shape[dim]);
    Index index = math.delinearize(number, sizes);
    for (auto [dim, expr] : llvm::zip(dims, index))
      source[dim] = expr;
  };
  // The kernel's reductions have as many rows and columns, perhaps in other dimensions.
  const ColumnShape own = columnShape(op);
  place(own.outerDims, block.outer);
  place(own.reducedDims, row);
  place(own.columnDims, math.add(math.multiply(block.firstHalf, block.inner), column));
  return source;
}

void LoopEmitter::emitColumns() {
  int64_t offset = 0;
  for (Operation *op : info.ops)
    if (auto reduce = dyn_cast<graph::ReduceOp>(op)) {
      columnReductions.push_back(reduce);
      columnAccumulators.push_back(offset);
      offset += plan.block * 8;
    }
  if (plan.extent == 1)
    return emitColumnBlock(math.constant(0));
  mainLoop([&](AffineExpr item) { emitColumnBlock(item); });
}

LoopEmitter::ColumnBlock LoopEmitter::columnBlock(AffineExpr item) {
  ColumnBlock block;
  block.shape = columnShape(columnReductions.front());
  block.inner = plan.loops.at({LoopId::Output, 0}).inner();
  block.halves = block.shape.columns / block.inner;
  AffineExpr leading = math.floorDivide(item, plan.blocks);
  block.outer = math.floorDivide(leading, block.halves);
  block.firstHalf = math.modulo(leading, block.halves);
  block.low = math.multiply(math.modulo(item, plan.blocks), plan.block);
  block.lowValue = evaluator.lower(block.low);
  Value most = evaluator.constantInt(block.inner),
        high = evaluator.lower(math.add(block.low, plan.block));
  evaluator.position();
  block.highValue =
      plan.blocks == 1 ? most : arith::MinSIOp::create(builder, loc, high, most).getResult();
  return block;
}

void LoopEmitter::forEachColumn(const ColumnBlock &block,
                                llvm::function_ref<void(AffineExpr)> body) {
  LoopId id{LoopId::Output, 0};
  loopBetween(
      block.lowValue, block.highValue, 1, {0, block.inner}, {},
      [&](AffineExpr column, Accumulators) {
        loopHere().id = id;
        loopHere().position = plan.loops.at(id).extents.size() - 1;
        loopHere().extent = block.inner;
        body(column);
        return Values();
      },
      /*parallel=*/true);
}

static Type accumulatorType(graph::ReduceOp op) {
  return computeType(getElementTypeOrSelf(op.getType()));
}

void LoopEmitter::addRows(const ColumnBlock &block, ArrayRef<AffineExpr> rows) {
  forEachColumn(block, [&](AffineExpr column) {
    AffineExpr place = math.add(column, math.multiply(block.low, -1));
    for (auto [op, offset] : llvm::zip(columnReductions, columnAccumulators)) {
      Values terms;
      for (AffineExpr row : rows)
        terms.push_back(evaluator.emit(op.getInput(), columnSource(op, block, row, column)));
      // Pairwise, so that the order does not depend on the vector width.
      for (size_t step = 1; step < terms.size(); step *= 2)
        for (size_t i = 0; i + step < terms.size(); i += 2 * step)
          terms[i] = evaluator.combine(op.getKind(), terms[i], terms[i + step]);
      Value sum = loadScratch(offset, place, accumulatorType(op));
      storeScratch(offset, place, evaluator.combine(op.getKind(), sum, terms[0]));
    }
  });
}

void LoopEmitter::emitColumnBlock(AffineExpr item) {
  ColumnBlock block = columnBlock(item);
  forEachColumn(block, [&](AffineExpr column) {
    AffineExpr place = math.add(column, math.multiply(block.low, -1));
    for (auto [op, offset] : llvm::zip(columnReductions, columnAccumulators))
      storeScratch(offset, place, evaluator.identityOf(op.getKind(), accumulatorType(op)));
  });
  auto manyRows = [&](int64_t low, int64_t count, int64_t scale, int64_t atOnce) {
    if (count > 0)
      loop({low, low + count}, std::nullopt, 0, {}, [&](AffineExpr step, Accumulators) {
        SmallVector<AffineExpr> together;
        for (int64_t i = 0; i < atOnce; ++i)
          together.push_back(math.add(math.multiply(step, scale), i));
        addRows(block, together);
        return Values();
      });
  };
  int64_t rows = block.shape.reduced, whole = rows / kRowsAtOnce;
  manyRows(0, whole, kRowsAtOnce, kRowsAtOnce);
  manyRows(whole * kRowsAtOnce, rows % kRowsAtOnce, 1, 1);

  phase = 1;
  for (auto [op, offset] : llvm::zip(columnReductions, columnAccumulators))
    accumulatorOf[op] = offset;
  blockLow = block.low;
  SmallVector<unsigned> all = llvm::to_vector(llvm::seq<unsigned>(0, info.results.size()));
  forEachColumn(block, [&](AffineExpr column) {
    writtenColumn = column;
    AffineExpr leading = math.add(math.multiply(block.outer, block.halves), block.firstHalf);
    writeResults(all, math.add(math.multiply(leading, block.inner), column));
  });
}

} // namespace dtc::cpu
