// Kernels of one op that writes elsewhere than it reads: scatter_add, cumsum, top_k, max_pool_grad.
#include "LoopEmitter.h"

using namespace mlir;

namespace dtc::cpu {

using namespace kernels;

using graph::ReduceKind;
using graph::shapeOf;

/// Table rows [begin, end) belong to this call: it sets them to zero or to the other terms of a
/// sum, then looks through all indices for those that fall among them. The order of additions is
/// that of the indices. Each row is what the sum is added to, or zero.
void LoopEmitter::initializeScatter(const SpecialResult &special, graph::ScatterAddOp op,
                                    int64_t width) {
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  Type element = getElementTypeOrSelf(op.getType());
  storeLoop = 1;
  mainLoop([&](AffineExpr row) {
    auto initialize = [&](AffineExpr column, Accumulators) {
      AffineExpr number = math.add(math.multiply(row, width), column);
      writtenElement = number;
      Value sum;
      for (Value term : special.terms) {
        Value value = evaluator.emit(term, math.delinearize(number, shape));
        sum = sum ? evaluator.combine(ReduceKind::Sum, sum, value,
                                      /*reorder=*/false)
                  : value;
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
  storeLoop = 2; // operands read from here on cannot share the result's buffer
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

void LoopEmitter::emitScan() {
  Operation *op = info.results[0].getDefiningOp();
  if (auto cumsum = dyn_cast<graph::CumSumOp>(op))
    return emitCumSum(cumsum);
  emitTopK(cast<graph::TopKOp>(op));
}

void LoopEmitter::emitCumSum(graph::CumSumOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  int64_t dim = op.getDim(), length = shape[dim];
  SmallVector<int64_t> others(shape);
  others.erase(others.begin() + dim);
  Type scalar = computeType(getElementTypeOrSelf(op.getType()));
  mainLoop([&](AffineExpr line) {
    Index index = math.delinearize(line, others);
    index.insert(index.begin() + dim, AffineExpr());
    Value zero = evaluator.constantOf(scalar, 0);
    loop({0, length}, std::nullopt, 0, {zero}, [&](AffineExpr step, Accumulators sums) {
      index[dim] = op.getReverse() ? math.add(math.multiply(step, -1), length - 1) : step;
      Value sum =
          evaluator.combine(ReduceKind::Sum, sums[0], evaluator.emit(op.getInput(), index), false);
      storeAt(0, math.linearize(index, shape), op.getExclusive() ? sums[0] : sum);
      return Values{sum};
    });
  });
}

/// For each place one pass over the row: the best of the elements that come after the one chosen
/// before, in the order of values (negated for the smallest), then of indices.
void LoopEmitter::emitTopK(graph::TopKOp op) {
  using Predicate = arith::CmpFPredicate;
  ArrayRef<int64_t> shape = shapeOf(op.getInput()), chosen = shapeOf(op.getResult());
  Type scalar = computeType(getElementTypeOrSelf(op.getInput().getType()));
  auto before = [&](Predicate order, Value a, Value b, Value first, Value second) {
    Value better = arith::CmpFOp::create(builder, loc, order, a, b);
    Value equal = arith::CmpFOp::create(builder, loc, Predicate::OEQ, a, b);
    Value earlier = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, first, second);
    earlier = arith::AndIOp::create(builder, loc, equal, earlier);
    return arith::OrIOp::create(builder, loc, better, earlier).getResult();
  };
  Value infinity = evaluator.constantOf(scalar, std::numeric_limits<double>::infinity());
  Value lowest = evaluator.constantOf(scalar, -std::numeric_limits<double>::infinity());
  Value none = evaluator.constantInt(-1), past = evaluator.constantInt(shape.back());
  auto key = [&](const Index &index) {
    Value value = evaluator.emit(op.getInput(), index);
    evaluator.position();
    Value isNaN = arith::CmpFOp::create(builder, loc, Predicate::UNO, value, value);
    value = arith::SelectOp::create(builder, loc, isNaN, infinity, value);
    return op.getSmallest() ? arith::NegFOp::create(builder, loc, value).getResult() : value;
  };
  mainLoop([&](AffineExpr line) {
    Index index = math.delinearize(line, shape.drop_back());
    index.push_back(AffineExpr());
    auto choose = [&](AffineExpr place, Accumulators previous) {
      Values last(previous);
      auto compare = [&](AffineExpr element, Accumulators best) {
        index.back() = element;
        Value value = key(index), at = evaluator.lower(element);
        evaluator.position();
        Value rest = before(Predicate::OLT, value, last[0], last[1], at);
        Value better = before(Predicate::OGT, value, best[0], at, best[1]);
        better = arith::AndIOp::create(builder, loc, rest, better);
        return Values{arith::SelectOp::create(builder, loc, better, value, best[0]),
                      arith::SelectOp::create(builder, loc, better, at, best[1])};
      };
      Values best = loop({0, shape.back()}, std::nullopt, 0, {lowest, past}, compare);
      Index to = index;
      to.back() = place;
      storeAt(0, math.linearize(to, chosen), best[1]);
      return best;
    };
    loop({0, chosen.back()}, std::nullopt, 0, {infinity, none}, choose);
  });
}

void LoopEmitter::emitPool() {
  auto op = info.results[0].getDefiningOp<graph::MaxPoolGradOp>();
  Type element = getElementTypeOrSelf(op.getType());
  if (computeType(element) != element)
    return evaluator.fail(op, "a kernel needs max_pool_grad in f32");
  mainLoop([&](AffineExpr plane) { emitPoolPlane(op, plane); });
}

void LoopEmitter::emitPoolPlane(graph::MaxPoolGradOp op, AffineExpr plane) {
  ArrayRef<int64_t> shape = shapeOf(op.getResult()), outShape = shapeOf(op.getGrad());
  ArrayRef<int64_t> space = shape.drop_front(2), windows = outShape.drop_front(2);
  ArrayRef<int64_t> kernel = op.getKernel();
  int64_t area = IndexMath::numElements(space);
  Type scalar = getElementTypeOrSelf(op.getType());
  Index leading = math.delinearize(plane, shape.take_front(2));
  AffineExpr base = math.multiply(plane, area);
  loop({0, area}, std::nullopt, 0, {}, [&](AffineExpr at, Accumulators) {
    storeAt(0, math.add(base, at), evaluator.constantOf(scalar, 0));
    return Values();
  });
  auto window = [&](AffineExpr number, Accumulators) {
    Index out = math.delinearize(number, windows);
    Value best = evaluator.identityOf(ReduceKind::Max, scalar), bestAt = evaluator.constantInt(0);
    Value none = evaluator.constant(builder.getBoolAttr(true));
    for (int64_t tap = 0, taps = IndexMath::numElements(kernel); tap < taps; ++tap) {
      Index source = leading, inSpace;
      Value inside = evaluator.constant(builder.getBoolAttr(true));
      int64_t rest = tap;
      SmallVector<int64_t> offsets(kernel.size());
      for (int64_t d = kernel.size() - 1; d >= 0; rest /= kernel[d], --d)
        offsets[d] = rest % kernel[d] * op.getDilations()[d] - op.getPadLow()[d];
      for (auto [d, offset] : llvm::enumerate(offsets)) {
        AffineExpr at = math.add(math.multiply(out[d], op.getStrides()[d]), offset);
        Value condition = evaluator.insideOf(at, 0, space[d]);
        inSpace.push_back(evaluator.clamped(at, 0, space[d]));
        evaluator.position();
        inside = arith::AndIOp::create(builder, loc, inside, condition);
      }
      source.append(inSpace);
      Value value = evaluator.emit(op.getInput(), source),
            place = evaluator.lower(math.linearize(inSpace, space));
      evaluator.position();
      Value more = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UGT, value, best);
      more = arith::OrIOp::create(builder, loc, more, none);
      Value better = arith::AndIOp::create(builder, loc, more, inside);
      best = arith::SelectOp::create(builder, loc, better, value, best);
      bestAt = arith::SelectOp::create(builder, loc, better, place, bestAt);
      none = arith::SelectOp::create(
          builder, loc, inside, arith::ConstantOp::create(builder, loc, builder.getBoolAttr(false)),
          none);
    }
    Index gradIndex = leading;
    gradIndex.append(out);
    Value grad = evaluator.emit(op.getGrad(), gradIndex);
    AffineExpr offset = math.add(base, evaluator.variableFor(bestAt, {0, area}));
    addTo(offset, grad);
    return Values();
  };
  loop({0, IndexMath::numElements(windows)}, std::nullopt, 0, {}, window);
}

} // namespace dtc::cpu
