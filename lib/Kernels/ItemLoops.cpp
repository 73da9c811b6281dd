#include "dtc/Kernels/ItemLoops.h"

using namespace mlir;

namespace dtc::kernels {

using graph::ReduceKind;
using graph::shapeOf;
using Predicate = arith::CmpFPredicate;

int64_t ItemLoops::itemsOf(Operation *op) {
  ArrayRef<int64_t> shape = shapeOf(op->getOperand(0));
  if (isa<graph::MaxPoolGradOp>(op))
    return IndexMath::numElements(shapeOf(op->getResult(0)).take_front(2));
  auto cumsum = dyn_cast<graph::CumSumOp>(op);
  return IndexMath::numElements(shape) / (cumsum ? shape[cumsum.getDim()] : shape.back());
}

void ItemLoops::emit(Operation *op, AffineExpr item) {
  if (auto cumsum = dyn_cast<graph::CumSumOp>(op))
    return emitCumSum(cumsum, item);
  if (auto topK = dyn_cast<graph::TopKOp>(op))
    return emitTopK(topK, item);
  auto pool = cast<graph::MaxPoolGradOp>(op);
  Type element = getElementTypeOrSelf(pool.getType());
  if (computeType(element) != element)
    return evaluator.fail(op, "a kernel needs max_pool_grad in f32");
  emitPoolPlane(pool, item);
}

void ItemLoops::emitCumSum(graph::CumSumOp op, AffineExpr line) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  int64_t dim = op.getDim(), length = shape[dim];
  SmallVector<int64_t> others(shape);
  others.erase(others.begin() + dim);
  Type scalar = computeType(getElementTypeOrSelf(op.getType()));
  Index index = math.delinearize(line, others);
  index.insert(index.begin() + dim, AffineExpr());
  Value zero = evaluator.constantOf(scalar, 0);
  host.itemLoop({0, length}, {zero}, [&](AffineExpr step, ValueRange sums) {
    index[dim] = op.getReverse() ? math.add(math.multiply(step, -1), length - 1) : step;
    Value sum = evaluator.combine(ReduceKind::Sum, sums[0], evaluator.emit(op.getInput(), index));
    host.storeResult(math.linearize(index, shape), op.getExclusive() ? sums[0] : sum);
    return Values{sum};
  });
}

Value ItemLoops::comesBefore(Predicate order, Value a, Value b, Value first, Value second) {
  Location loc = a.getLoc();
  Value better = arith::CmpFOp::create(builder, loc, order, a, b);
  Value equal = arith::CmpFOp::create(builder, loc, Predicate::OEQ, a, b);
  Value earlier = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, first, second);
  earlier = arith::AndIOp::create(builder, loc, equal, earlier);
  return arith::OrIOp::create(builder, loc, better, earlier);
}

/// The order of values, from the largest: NaN is infinite, and values are negated for the smallest.
Value ItemLoops::sortKey(graph::TopKOp op, const Index &index) {
  Type scalar = computeType(getElementTypeOrSelf(op.getInput().getType()));
  Value infinity = evaluator.constantOf(scalar, std::numeric_limits<double>::infinity());
  Value value = evaluator.emit(op.getInput(), index);
  evaluator.position();
  Location loc = op.getLoc();
  Value isNaN = arith::CmpFOp::create(builder, loc, Predicate::UNO, value, value);
  value = arith::SelectOp::create(builder, loc, isNaN, infinity, value);
  return op.getSmallest() ? arith::NegFOp::create(builder, loc, value).getResult() : value;
}

/// For each place one pass over the row. It finds the best of the elements that come after the one
/// chosen before, in the order of values, then of indices.
void ItemLoops::emitTopK(graph::TopKOp op, AffineExpr line) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput()), chosen = shapeOf(op.getResult());
  Type scalar = computeType(getElementTypeOrSelf(op.getInput().getType()));
  Location loc = op.getLoc();
  Value infinity = evaluator.constantOf(scalar, std::numeric_limits<double>::infinity());
  Value lowest = evaluator.constantOf(scalar, -std::numeric_limits<double>::infinity());
  Value none = evaluator.constantInt(-1), past = evaluator.constantInt(shape.back());
  Index index = math.delinearize(line, shape.drop_back());
  index.push_back(AffineExpr());
  auto choose = [&](AffineExpr place, ValueRange previous) {
    Values last(previous);
    auto compare = [&](AffineExpr element, ValueRange best) {
      index.back() = element;
      Value value = sortKey(op, index), at = evaluator.lower(element);
      evaluator.position();
      Value rest = comesBefore(Predicate::OLT, value, last[0], last[1], at);
      Value better = comesBefore(Predicate::OGT, value, best[0], at, best[1]);
      better = arith::AndIOp::create(builder, loc, rest, better);
      return Values{arith::SelectOp::create(builder, loc, better, value, best[0]),
                    arith::SelectOp::create(builder, loc, better, at, best[1])};
    };
    Values best = host.itemLoop({0, shape.back()}, {lowest, past}, compare);
    Index to = index;
    to.back() = place;
    host.storeResult(math.linearize(to, chosen), best[1]);
    return best;
  };
  host.itemLoop({0, chosen.back()}, {infinity, none}, choose);
}

Value ItemLoops::largestOf(graph::MaxPoolGradOp op, const Index &leading, const Index &window) {
  ArrayRef<int64_t> space = shapeOf(op.getResult()).drop_front(2), kernel = op.getKernel();
  Location loc = op.getLoc();
  Value best = evaluator.identityOf(ReduceKind::Max, getElementTypeOrSelf(op.getType()));
  Value bestAt = evaluator.constantInt(0);
  Value none = evaluator.constant(builder.getBoolAttr(true));
  for (int64_t tap = 0, taps = IndexMath::numElements(kernel); tap < taps; ++tap) {
    Index source = leading, inSpace;
    Value inside = evaluator.constant(builder.getBoolAttr(true));
    auto offsets = IndexMath::tapOffsets(tap, kernel, op.getDilations(), op.getPadLow());
    for (auto [d, offset] : llvm::enumerate(offsets)) {
      AffineExpr at = math.add(math.multiply(window[d], op.getStrides()[d]), offset);
      Value condition = evaluator.insideOf(at, 0, space[d]);
      inSpace.push_back(evaluator.clamped(at, 0, space[d]));
      evaluator.position();
      inside = arith::AndIOp::create(builder, loc, inside, condition);
    }
    source.append(inSpace);
    Value value = evaluator.emit(op.getInput(), source),
          place = evaluator.lower(math.linearize(inSpace, space));
    evaluator.position();
    Value more = arith::CmpFOp::create(builder, loc, Predicate::UGT, value, best);
    more = arith::OrIOp::create(builder, loc, more, none);
    Value better = arith::AndIOp::create(builder, loc, more, inside);
    best = arith::SelectOp::create(builder, loc, better, value, best);
    bestAt = arith::SelectOp::create(builder, loc, better, place, bestAt);
    none = arith::SelectOp::create(
        builder, loc, inside, arith::ConstantOp::create(builder, loc, builder.getBoolAttr(false)),
        none);
  }
  return bestAt;
}

void ItemLoops::emitPoolPlane(graph::MaxPoolGradOp op, AffineExpr plane) {
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  ArrayRef<int64_t> windows = shapeOf(op.getGrad()).drop_front(2);
  int64_t area = IndexMath::numElements(shape.drop_front(2));
  Type scalar = getElementTypeOrSelf(op.getType());
  Index leading = math.delinearize(plane, shape.take_front(2));
  AffineExpr base = math.multiply(plane, area);
  host.itemLoop({0, area}, {}, [&](AffineExpr at, ValueRange) {
    host.storeResult(math.add(base, at), evaluator.constantOf(scalar, 0));
    return Values();
  });
  host.itemLoop({0, IndexMath::numElements(windows)}, {}, [&](AffineExpr number, ValueRange) {
    Index window = math.delinearize(number, windows), gradIndex = leading;
    Value at = largestOf(op, leading, window);
    gradIndex.append(window);
    Value grad = evaluator.emit(op.getGrad(), gradIndex);
    host.addToResult(math.add(base, evaluator.variableFor(at, {0, area})), grad);
    return Values();
  });
}

} // namespace dtc::kernels
