// Reductions of rows. Sums of floats are added up in an order that follows from the op alone, so
// that they are the same whatever else their kernel computes:
//
//     a row of 100 elements, 32 lanes
//       lanes    element 0..31, then + 32..63, then + 64..95, then + 96..99 in the first four
//       the end  halves: lanes 0..15 + 16..31, then 0..7 + 8..15, ...
//
// A row is made of runs, which are its innermost dimensions; each starts at the first lane.
#include "LoopEmitter.h"

using namespace mlir;

namespace dtc::cpu {

using namespace kernels;

using graph::ReduceKind;
using graph::shapeOf;

/// Lanes of long runs: two vectors of 512 bits.
static constexpr int64_t kLanes = 32;
/// Reductions of at most this many elements are written out where they are needed.
static constexpr int64_t kWrittenOut = 16;

RowLanes::RowLanes(graph::ReduceOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  for (int64_t dim = shape.size() - 1; dim >= 0; --dim) {
    if (shape[dim] != 1 && !llvm::is_contained(op.getDims(), dim))
      break;
    run *= shape[dim];
  }
  const int64_t results = elementsOf(op.getResult());
  runs = results && run ? elementsOf(op.getInput()) / results / run : 0;
  lanes = std::min<int64_t>(kLanes, llvm::PowerOf2Ceil(run));
}

bool addsInLanes(graph::ReduceOp op) {
  const bool isRounded = op.getKind() == ReduceKind::Sum || op.getKind() == ReduceKind::Prod;
  return isRounded && isa<FloatType>(getElementTypeOrSelf(op.getType()));
}

bool isWrittenOut(graph::ReduceOp op) {
  return elementsOf(op.getInput()) <= elementsOf(op.getResult()) * kWrittenOut;
}

static Type scalarOf(graph::ReduceOp op) { return computeType(getElementTypeOrSelf(op.getType())); }

Value LoopEmitter::identityLanes(graph::ReduceOp op, int64_t lanes) {
  auto type = VectorType::get({lanes}, scalarOf(op));
  const double identity = op.getKind() == ReduceKind::Sum ? 0 : 1;
  evaluator.position();
  auto value = builder.getFloatAttr(type.getElementType(), identity);
  return arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, value));
}

static Value combineLanes(OpBuilder &builder, graph::ReduceOp op, Value a, Value b) {
  if (op.getKind() == ReduceKind::Sum)
    return arith::AddFOp::create(builder, a.getLoc(), a, b);
  return arith::MulFOp::create(builder, a.getLoc(), a, b);
}

/// A place on the stack for the terms of all lanes.
Value LoopEmitter::laneArray(Type scalar, int64_t lanes) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&function.front());
  Value size = LLVM::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(lanes));
  return LLVM::AllocaOp::create(builder, loc, LLVM::LLVMPointerType::get(builder.getContext()),
                                scalar, size, /*alignment=*/64);
}

LoopEmitter::Values LoopEmitter::addToLanes(ArrayRef<graph::ReduceOp> ops, const Index &index,
                                            ArrayRef<Value> arrays, AffineExpr first, int64_t count,
                                            ValueRange sums) {
  const AffineExpr outerNumber = columnNumber;
  auto storeTerm = [&](AffineExpr lane, Accumulators) {
    columnNumber = math.add(first, lane);
    for (auto [op, array] : llvm::zip(ops, arrays)) {
      graph::ReduceOp reduce = op;
      Value term =
          evaluator.emit(reduce.getInput(), evaluator.reductionSource(reduce, index, columnNumber));
      Value place = address(array, lane, term.getType());
      evaluator.position();
      auto store = LLVM::StoreOp::create(builder, loc, term, place, storageBytes(term.getType()));
      store.setAccessGroupsAttr(builder.getArrayAttr({loopHere().accessGroup}));
    }
    return Values();
  };
  loop({0, count}, std::nullopt, 0, {}, storeTerm, /*parallel=*/true);
  columnNumber = outerNumber;
  evaluator.position();
  Values next;
  for (auto [op, array, sum] : llvm::zip(ops, arrays, sums)) {
    Value terms = LLVM::LoadOp::create(builder, loc, sum.getType(), array, /*alignment=*/64);
    next.push_back(combineLanes(builder, op, sum, terms));
  }
  return next;
}

Value LoopEmitter::sumOfLanes(graph::ReduceOp op, Value sum, int64_t lanes) {
  evaluator.position();
  for (int64_t half = lanes / 2; half > 0; half /= 2) {
    auto low = llvm::to_vector(llvm::seq<int32_t>(0, half));
    auto high = llvm::to_vector(llvm::seq<int32_t>(half, 2 * half));
    sum = combineLanes(builder, op, LLVM::ShuffleVectorOp::create(builder, loc, sum, sum, low),
                       LLVM::ShuffleVectorOp::create(builder, loc, sum, sum, high));
  }
  Value first = evaluator.constantInt(0);
  evaluator.position();
  return LLVM::ExtractElementOp::create(builder, loc, sum, first);
}

/// Whole vectors of all runs first, then what is left of each.
LoopEmitter::Values LoopEmitter::reduceInLanes(ArrayRef<graph::ReduceOp> ops, const Index &index) {
  const RowLanes shape(ops.front());
  Values sums, arrays;
  for (graph::ReduceOp op : ops) {
    sums.push_back(identityLanes(op, shape.lanes));
    arrays.push_back(laneArray(scalarOf(op), shape.lanes));
  }
  if (shape.vectors() > 0)
    sums = nest({LoopId::Reduction, info.indexOf.lookup(ops.front())}, sums,
                [&](AffineExpr number, Accumulators before) {
                  AffineExpr run = math.floorDivide(number, shape.vectors());
                  AffineExpr vector = math.modulo(number, shape.vectors());
                  AffineExpr first =
                      math.add(math.multiply(run, shape.run), math.multiply(vector, shape.lanes));
                  return addToLanes(ops, index, arrays, first, shape.lanes, before);
                });
  if (shape.rest() > 0) {
    for (auto [op, array] : llvm::zip(ops, arrays)) {
      Value none = identityLanes(op, shape.lanes);
      LLVM::StoreOp::create(builder, loc, none, array, /*alignment=*/64);
    }
    sums = loop({0, shape.runs}, std::nullopt, 0, sums, [&](AffineExpr run, Accumulators before) {
      AffineExpr first = math.add(math.multiply(run, shape.run), shape.run - shape.rest());
      return addToLanes(ops, index, arrays, first, shape.rest(), before);
    });
  }
  for (auto [op, sum] : llvm::zip(ops, sums))
    sum = sumOfLanes(op, sum, shape.lanes);
  return sums;
}

/// One element after the other. LLVM may do so in any order, as all give the same.
LoopEmitter::Values LoopEmitter::reduceInAnyOrder(ArrayRef<graph::ReduceOp> ops,
                                                  const Index &index) {
  Values initial;
  for (graph::ReduceOp op : ops)
    initial.push_back(evaluator.identityOf(op.getKind(), scalarOf(op)));
  LoopId id{LoopId::Reduction, info.indexOf.lookup(ops.front())};
  AffineExpr outerNumber = columnNumber;
  Values results = nest(id, initial, [&](AffineExpr element, Accumulators accumulators) {
    columnNumber = element;
    Values next;
    for (auto [i, accumulator] : llvm::enumerate(accumulators)) {
      graph::ReduceOp op = ops[i];
      Value term = evaluator.emit(op.getInput(), evaluator.reductionSource(op, index, element));
      next.push_back(evaluator.combine(op.getKind(), accumulator, term));
    }
    return next;
  });
  columnNumber = outerNumber;
  return results;
}

LoopEmitter::Values LoopEmitter::reduceTogether(ArrayRef<graph::ReduceOp> ops, const Index &index) {
  if (isWrittenOut(ops.front()))
    return llvm::map_to_vector<2>(
        ops, [&](graph::ReduceOp op) { return evaluator.writtenOut(op, index); });
  SmallVector<graph::ReduceOp> inLanes, others;
  for (graph::ReduceOp op : ops)
    (addsInLanes(op) ? inLanes : others).push_back(op);
  Values laneResults, otherResults, results;
  if (!inLanes.empty())
    laneResults = reduceInLanes(inLanes, index);
  if (!others.empty())
    otherResults = reduceInAnyOrder(others, index);
  auto fromLanes = laneResults.begin(), fromOthers = otherResults.begin();
  for (graph::ReduceOp op : ops)
    results.push_back(addsInLanes(op) ? *fromLanes++ : *fromOthers++);
  return results;
}

} // namespace dtc::cpu
