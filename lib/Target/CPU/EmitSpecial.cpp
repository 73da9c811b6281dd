// Kernels of one op that has loops of its own: scatter_add, cumsum, top_k, max_pool_grad.
#include "LoopEmitter.h"

using namespace mlir;

namespace dtc::cpu {

using namespace kernels;

using graph::ReduceKind;
using graph::shapeOf;

/// Table rows [begin, end) belong to this call. It sets them to zero or to the other terms of a
/// sum, then looks through all indices for those that fall among them. The order of additions is
/// that of the indices. Each row is what the sum is added to, or zero.
void LoopEmitter::initializeScatter(const SpecialResult &special, graph::ScatterAddOp op,
                                    int64_t width) {
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  Type element = getElementTypeOrSelf(op.getType());
  phase = 1;
  mainLoop([&](AffineExpr row) {
    auto initialize = [&](AffineExpr column, Accumulators) {
      AffineExpr number = math.add(math.multiply(row, width), column);
      writtenElement = number;
      Value sum;
      for (Value term : special.terms) {
        Value value = evaluator.emit(term, math.delinearize(number, shape));
        sum = sum ? evaluator.combine(ReduceKind::Sum, sum, value) : value;
      }
      storeAt(0, number, sum ? sum : evaluator.constantOf(element, 0));
      writtenElement = {};
      return Values();
    };
    loop({0, width}, std::nullopt, 0, {}, initialize, /*parallel=*/true);
  });
}

void LoopEmitter::emitScatter() {
  SpecialResult special = specialResult(info);
  auto op = cast<graph::ScatterAddOp>(special.op);
  ArrayRef<int64_t> shape = shapeOf(op.getResult()), indexShape = shapeOf(op.getIndices());
  int64_t axis = op.getAxis(), size = shape[axis];
  int64_t width = IndexMath::numElements(shape.drop_front(axis + 1));
  int64_t outer = IndexMath::numElements(shape.take_front(axis));
  Type element = getElementTypeOrSelf(op.getType());
  if (computeType(element) != element)
    return evaluator.fail(op, "a kernel needs scatter_add in f32");

  initializeScatter(special, op, width);
  phase = 2; // operands read from here on cannot share the result's buffer
  Value one = evaluator.constantInt(1), rows = evaluator.constantInt(size),
        wide = evaluator.constantInt(width);
  Value zero = evaluator.constantInt(0);
  evaluator.position();
  Value first = arith::DivUIOp::create(builder, loc, begin, rows);
  Value last = arith::SubIOp::create(builder, loc, rows, one);
  Value past = arith::AddIOp::create(builder, loc, end, last);
  past = arith::DivUIOp::create(builder, loc, past, rows);
  auto addUpdate = [&](AffineExpr batch, AffineExpr number) {
    auto [at, valid] =
        evaluator.checkedIndex(op.getIndices(), math.delinearize(number, indexShape), size);
    AffineExpr row = math.add(math.multiply(batch, size), at);
    Value rowValue = evaluator.lower(row);
    evaluator.position();
    Value after = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, rowValue, begin);
    Value before = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, rowValue, end);
    Value ours = arith::AndIOp::create(builder, loc, valid,
                                       arith::AndIOp::create(builder, loc, after, before));
    Value count = arith::SelectOp::create(builder, loc, ours, wide, zero);
    Index leading = math.delinearize(batch, shape.take_front(axis));
    leading.append(math.delinearize(number, indexShape));
    auto addColumn = [&](AffineExpr column, Accumulators) {
      Index source = leading;
      source.append(math.delinearize(column, shape.drop_front(axis + 1)));
      Value update = evaluator.emit(op.getUpdates(), source);
      AffineExpr offset = math.add(math.multiply(row, width), column);
      addTo(offset, update);
      return Values();
    };
    loopBetween(zero, count, 1, {0, width}, {}, addColumn, /*parallel=*/true);
  };
  loopBetween(first, past, 1, {0, outer}, {}, [&](AffineExpr batch, Accumulators) {
    loop({0, IndexMath::numElements(indexShape)}, std::nullopt, 0, {},
         [&](AffineExpr number, Accumulators) {
           addUpdate(batch, number);
           return Values();
         });
    return Values();
  });
}

void LoopEmitter::emitItems() {
  ItemLoops items(builder, evaluator, *this);
  mainLoop([&](AffineExpr item) { items.emit(info.results[0].getDefiningOp(), item); });
}

} // namespace dtc::cpu
