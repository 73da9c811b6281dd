#include "LoopEmitter.h"

#include "dtc/Kernels/MathApproximation.h"

using namespace mlir;

namespace dtc::cpu {

using namespace kernels;
using graph::shapeOf;

/// More pieces of a loop than this only bloat the code.
static constexpr size_t kMostCuts = 8;

LoopEmitter::LoopEmitter(const BodyInfo &info, const KernelPlan &plan, OpBuilder &builder)
    : KernelWriter(info, builder), plan(plan) {}

FailureOr<func::FuncOp> LoopEmitter::emitFunction(StringRef name) {
  MLIRContext *context = builder.getContext();
  Type pointer = LLVM::LLVMPointerType::get(context), i64 = builder.getI64Type();
  function = func::FuncOp::create(builder, loc, name,
                                  builder.getFunctionType({pointer, i64, i64, pointer}, {}));
  OpBuilder::InsertionGuard guard(builder);
  Block *entry = function.addEntryBlock();
  evaluator.pushScope(entry);
  begin = entry->getArgument(1);
  end = entry->getArgument(2);
  scratch = entry->getArgument(3);

  auto domain = LLVM::AliasScopeDomainAttr::get(context, builder.getStringAttr("kernel"));
  unsigned count = info.body.getNumArguments() + info.results.size();
  for (unsigned i = 0; i <= count; ++i)
    aliasScopes.push_back(LLVM::AliasScopeAttr::get(
        context, DistinctAttr::create(builder.getI64IntegerAttr(i)), domain, StringAttr()));
  evaluator.position();
  for (unsigned i = 0; i < count; ++i) {
    Value slot = LLVM::GEPOp::create(builder, loc, pointer, pointer, entry->getArgument(0),
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    auto loaded = LLVM::LoadOp::create(builder, loc, pointer, slot);
    loaded.setInvariant(true);
    arguments.push_back(loaded);
  }
  emitKind();
  evaluator.position();
  func::ReturnOp::create(builder, loc);
  evaluator.popScope();
  if (evaluator.hasFailed())
    return failure();
  return function;
}

// Loops.

LoopEmitter::Values LoopEmitter::loopBetween(Value low, Value high, int64_t step, Range range,
                                             ValueRange initial, const Body &body, bool parallel) {
  auto inScope = [&](AffineExpr variable, Accumulators accumulators) {
    if (parallel) {
      MLIRContext *context = builder.getContext();
      auto group = LLVM::AccessGroupAttr::get(context, DistinctAttr::create(builder.getUnitAttr()));
      loopHere().accessGroup = group;
      evaluator.blockAt(evaluator.depth())
          ->getParentOp()
          ->setAttr("loop_annotation",
                    LLVM::LoopAnnotationAttr::get(context, {}, {}, {}, {}, {}, {}, {}, {}, {}, {},
                                                  {}, {}, {}, {}, {group}));
    }
    loopHere().variable = variable;
    return body(variable, accumulators);
  };
  return KernelWriter::loop(low, high, step, range, initial, inScope);
}

LoopEmitter::Values LoopEmitter::loop(Range range, std::optional<LoopId> id, unsigned position,
                                      ValueRange initial, const Body &body, bool parallel) {
  Value low = evaluator.constantInt(range.low), high = evaluator.constantInt(range.high);
  auto inScope = [&](AffineExpr variable, Accumulators accumulators) {
    loopHere().id = id;
    loopHere().position = position;
    loopHere().extent = id ? plan.loops.at(*id).extents[position] : 0;
    return body(variable, accumulators);
  };
  return loopBetween(low, high, 1, range, initial, inScope, parallel);
}

LoopEmitter::Values LoopEmitter::nestFrom(LoopId id, unsigned position, AffineExpr linear,
                                          ValueRange initial, const Body &body, bool parallel) {
  const LoopShape &shape = plan.loops.at(id);
  int64_t extent = shape.extents[position];
  bool innermost = position + 1 == shape.extents.size();
  SmallVector<int64_t> ends;
  if (innermost)
    ends.append(shape.cuts.begin(), shape.cuts.end());
  ends.push_back(extent);
  Values current(initial);
  int64_t low = 0;
  for (int64_t high : ends) {
    current = loop(
        {low, high}, id, position, current,
        [&](AffineExpr variable, Accumulators accumulators) {
          AffineExpr number = math.add(math.multiply(linear, extent), variable);
          loopHere().cuttable = innermost;
          if (innermost)
            return body(number, accumulators);
          return nestFrom(id, position + 1, number, accumulators, body, parallel);
        },
        parallel && innermost);
    low = high;
  }
  return current;
}

LoopEmitter::Values LoopEmitter::nest(LoopId id, ValueRange initial, const Body &body,
                                      bool parallel) {
  return nestFrom(id, 0, math.constant(0), initial, body, parallel);
}

void LoopEmitter::mainLoop(const std::function<void(AffineExpr)> &body, bool parallel,
                           std::optional<LoopId> id) {
  loopBetween(
      begin, end, 1, {0, plan.extent}, {},
      [&](AffineExpr variable, Accumulators) {
        loopHere().id = id;
        loopHere().extent = plan.extent;
        body(variable);
        return Values();
      },
      parallel);
}

// What the evaluator asks for.

void LoopEmitter::noteDivision(AffineExpr expr) {
  if (findings.split)
    return;
  for (int depth = 0; depth <= evaluator.depth(); ++depth) {
    const Loop &open = loops[evaluator.blockAt(depth)];
    if (!open.id)
      continue;
    int64_t inner = math.splitOf(expr, open.variable);
    if (inner > 1 && inner < open.extent && open.extent % inner == 0) {
      findings.split = {*open.id, open.position, inner};
      return;
    }
  }
}

void LoopEmitter::noteBoundary(AffineExpr position, int64_t boundary) {
  const Loop &inner = loopHere();
  if (findings.cut || !inner.cuttable || plan.loops.at(*inner.id).cuts.size() >= kMostCuts)
    return;
  auto offset = dyn_cast<AffineConstantExpr>(math.add(position, math.multiply(inner.variable, -1)));
  if (!offset)
    return;
  int64_t cut = boundary - offset.getValue();
  Range range = math.range(inner.variable);
  if (cut > range.low && cut < range.high)
    findings.cut = {*inner.id, cut};
}

const Stash *LoopEmitter::stashOf(Operation *op) const {
  unsigned number = info.indexOf.lookup(op);
  auto stash = llvm::find_if(plan.stashes, [&](const Stash &s) { return s.op == number; });
  return stash == plan.stashes.end() ? nullptr : &*stash;
}

bool LoopEmitter::isAtColumn(Operation *op, const Index &index) {
  if (!columnNumber)
    return false;
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  int64_t columns = type.getNumElements() / plan.rows;
  AffineExpr linear = math.add(math.multiply(rowVariable, columns), columnNumber);
  return math.linearize(index, type.getShape()) == linear;
}

Value LoopEmitter::kept(Operation *op, const Index &index) {
  if (const Stash *stash = stashOf(op))
    return isAtColumn(op, index) && stashedOps.count(stash->op)
               ? loadScratch(stash->scratchOffset, columnNumber,
                             computeType(getElementTypeOrSelf(op->getResult(0))))
               : Value();
  auto reduce = dyn_cast<graph::ReduceOp>(op);
  return reduce && accumulatorOf.count(reduce) ? accumulated(reduce, index) : Value();
}

void LoopEmitter::computed(Operation *op, const Index &index, Value value) {
  if (!storesStashes)
    return;
  const Stash *stash = stashOf(op);
  if (!stash || stashedOps.count(stash->op) || !isAtColumn(op, index))
    return;
  storeScratch(stash->scratchOffset, columnNumber, value);
  pendingStashes.insert(stash->op);
}

Value LoopEmitter::accumulated(graph::ReduceOp op, const Index &index) {
  Type scalar = computeType(getElementTypeOrSelf(op.getType()));
  if (math.linearize(index, shapeOf(op.getResult())) != writtenElement) {
    evaluator.fail(op, "sums over rows can only be followed by elementwise ops in a kernel");
    return evaluator.constantOf(scalar, 0);
  }
  AffineExpr place = math.add(writtenColumn, math.multiply(blockLow, -1));
  return loadScratch(accumulatorOf.at(op), place, scalar);
}

Value LoopEmitter::reduce(graph::ReduceOp op, const Index &index) {
  return reduceTogether({op}, index)[0];
}

Value LoopEmitter::approximate(Operation *op, ValueRange operands) {
  return kernels::approximate(builder, op, operands);
}

} // namespace dtc::cpu
