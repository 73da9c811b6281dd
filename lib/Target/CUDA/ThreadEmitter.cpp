#include "ThreadEmitter.h"
#include "MathFunctions.h"
#include "ProductTiles.h"
#include "WarpOps.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dtc::cuda {

using namespace kernels;

using graph::shapeOf;

/// Reductions of at most this many elements are written out where they are needed.
static constexpr int64_t kUnrolledReduction = 16;

ThreadEmitter::ThreadEmitter(const BodyInfo &info, const KernelPlan &plan, OpBuilder &builder)
    : KernelWriter(info, builder), plan(plan) {
  hasHalves = llvm::any_of(info.body.getArgumentTypes(), [](Type type) {
    Type element = getElementTypeOrSelf(type);
    return kernels::computeType(element) != element;
  });
}

FailureOr<LLVM::LLVMFuncOp> ThreadEmitter::emitFunction(StringRef name) {
  MLIRContext *context = builder.getContext();
  Type pointer =
      LLVM::LLVMPointerType::get(context, static_cast<unsigned>(NVVM::NVVMMemorySpace::Global));
  Type i32 = builder.getI32Type();
  unsigned count = info.body.getNumArguments() + info.body.getTerminator()->getNumOperands();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                          SmallVector<Type>(count, pointer));
  function = LLVM::LLVMFuncOp::create(builder, loc, name, type);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    builder.getDenseI32ArrayAttr({static_cast<int32_t>(plan.threads)}));
  // ptxas would rather have more threads than read all rows or units of a turn at once: at most one
  // block is asked for, so that it takes the registers. Two blocks of products hide each other's
  // barriers where both fit.
  if (plan.kind == KernelKind::Products)
    function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                      builder.getI32IntegerAttr(
                          ProductTiles(cast<exec::GroupedMatmulOp>(info.ops.front())).atOnce()));
  else if (plan.kind == KernelKind::Columns || plan.turns > 1)
    function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), builder.getI32IntegerAttr(1));
  setArgumentAttributes();
  OpBuilder::InsertionGuard guard(builder);
  Block *entry = function.addEntryBlock(builder);
  evaluator.pushScope(entry);
  llvm::append_range(arguments, entry->getArguments());
  evaluator.position();
  auto range = [&](int64_t high) {
    return LLVM::ConstantRangeAttr::get(context, APInt(32, 0), APInt(32, high));
  };
  block = NVVM::BlockIdXOp::create(builder, loc, i32, range(plan.blocks));
  thread = NVVM::ThreadIdXOp::create(builder, loc, i32, range(plan.threads));
  emitKind();
  evaluator.position();
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  evaluator.popScope();
  if (evaluator.hasFailed())
    return failure();
  return function;
}

// Numbers of threads.

static Value number(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
}

Value ThreadEmitter::groupNumber(int64_t perBlock, Value own) {
  evaluator.position();
  auto noWrap = arith::IntegerOverflowFlags::nsw | arith::IntegerOverflowFlags::nuw;
  Type i64 = builder.getI64Type();
  // In 32 bits where they are enough, which is most often.
  bool isWide = plan.blocks * perBlock > std::numeric_limits<int32_t>::max();
  Value first = isWide ? arith::ExtUIOp::create(builder, loc, i64, block).getResult() : block;
  Value each = isWide ? evaluator.constantInt(perBlock) : number(builder, loc, perBlock);
  Value result = arith::MulIOp::create(builder, loc, first, each, noWrap);
  if (own && isWide)
    own = arith::ExtUIOp::create(builder, loc, i64, own);
  if (own)
    result = arith::AddIOp::create(builder, loc, result, own, noWrap);
  return isWide ? result : arith::ExtUIOp::create(builder, loc, i64, result).getResult();
}

Value ThreadEmitter::threadOver(int64_t divisor) {
  evaluator.position();
  return arith::DivUIOp::create(builder, loc, thread, number(builder, loc, divisor));
}

Value ThreadEmitter::threadModulo(int64_t divisor) {
  evaluator.position();
  return arith::RemUIOp::create(builder, loc, thread, number(builder, loc, divisor));
}

Value ThreadEmitter::isBelow(Value value, int64_t bound) {
  Value high = evaluator.constantInt(bound);
  evaluator.position();
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, value, high);
}

// Control.

void ThreadEmitter::when(Value condition, llvm::function_ref<void()> body) {
  evaluator.position();
  auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  branch.thenBlock()->getTerminator()->erase();
  Operation *before = evaluator.continueBefore(branch);
  evaluator.pushScope(branch.thenBlock());
  body();
  evaluator.position();
  scf::YieldOp::create(builder, loc);
  evaluator.popScope();
  evaluator.continueBefore(before);
}

ThreadEmitter::Values ThreadEmitter::itemLoop(Range range, ValueRange initial,
                                              const LoopBody &body) {
  return loop(evaluator.constantInt(range.low), evaluator.constantInt(range.high), 1, range,
              initial, body);
}

void ThreadEmitter::withItem(Value item, llvm::function_ref<void(AffineExpr)> body) {
  auto inScope = [&] { body(evaluator.variableFor(item, {0, plan.items})); };
  if (plan.isFull())
    return inScope();
  when(isBelow(item, plan.items), inScope);
}

// What the evaluator asks for.

Value ThreadEmitter::kept(Operation *op, const Index &index) {
  auto results = columnResults.find(op);
  if (results == columnResults.end())
    return {};
  AffineExpr element = math.linearize(index, shapeOf(op->getResult(0)));
  const auto *column = llvm::find(writtenColumns, element);
  if (element == writtenElement && column != writtenColumns.end())
    return results->second[column - writtenColumns.begin()];
  evaluator.fail(op, "sums over rows can only be followed by elementwise ops in a kernel");
  return results->second.front();
}

/// By one thread: of few elements, or of none that its row or column has.
Value ThreadEmitter::reduce(graph::ReduceOp op, const Index &index) {
  int64_t results = elementsOf(op.getResult());
  int64_t count = results ? elementsOf(op.getInput()) / results : 0;
  if (count <= kUnrolledReduction)
    return evaluator.writtenOut(op, index);
  Type scalar = computeType(getElementTypeOrSelf(op.getType()));
  Value identity = evaluator.identityOf(op.getKind(), scalar);
  return itemLoop({0, count}, {identity}, [&](AffineExpr element, ValueRange sums) {
    Value term = evaluator.emit(op.getInput(), evaluator.reductionSource(op, index, element));
    return Values{evaluator.combine(op.getKind(), sums[0], term)};
  })[0];
}

/// 1 / (1 + exp(x)), as of a sigmoid: the divisor is at least 1.
static bool isReciprocalOfExponential(Operation *op) {
  auto isOne = [](Value value) {
    DenseFPElementsAttr elements;
    return matchPattern(value, m_Constant(&elements)) && elements.isSplat() &&
           elements.getSplatValue<APFloat>().isExactlyValue(1.0);
  };
  auto isExponential = [](Value value) { return value.getDefiningOp<math::ExpOp>() != nullptr; };
  auto division = dyn_cast<arith::DivFOp>(op);
  auto sum = division ? division.getRhs().getDefiningOp<arith::AddFOp>() : nullptr;
  return sum && isOne(division.getLhs()) &&
         ((isOne(sum.getLhs()) && isExponential(sum.getRhs())) ||
          (isOne(sum.getRhs()) && isExponential(sum.getLhs())));
}

/// Whether a number of 64 bits is a place in a tensor, by comparing 32: of a loss, for each logit.
/// Null where nothing else is compared, or the place may need more.
static Value comparedPlace(OpBuilder &builder, Operation *op, ValueRange operands) {
  auto comparison = dyn_cast<arith::CmpIOp>(op);
  if (!comparison || !operands[0].getType().isInteger(64) ||
      (comparison.getPredicate() != arith::CmpIPredicate::eq &&
       comparison.getPredicate() != arith::CmpIPredicate::ne))
    return {};
  unsigned which = comparison.getLhs().getDefiningOp<graph::IotaOp>() ? 0 : 1;
  auto iota = op->getOperand(which).getDefiningOp<graph::IotaOp>();
  const int64_t most = std::numeric_limits<int32_t>::max();
  if (!iota || shapeOf(iota.getResult())[iota.getDim()] > most)
    return {};
  Location loc = op->getLoc();
  Type i32 = builder.getI32Type();
  Value place = arith::TruncIOp::create(builder, loc, i32, operands[which]);
  Value other = operands[1 - which], narrow = arith::TruncIOp::create(builder, loc, i32, other);
  Value bound = arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(most));
  Value none = arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(-1));
  Value fits = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, other, bound);
  narrow = arith::SelectOp::create(builder, loc, fits, narrow, none);
  return arith::CmpIOp::create(builder, loc, comparison.getPredicate(), place, narrow);
}

Value ThreadEmitter::approximate(Operation *op, ValueRange operands) {
  if (!isComputable(op))
    evaluator.fail(op, "cannot be computed on a GPU yet: " + op->getName().getStringRef());
  if (Value compared = comparedPlace(builder, op, operands))
    return compared;
  const bool isSingle = !operands.empty() && operands[0].getType().isF32();
  if (isSingle && isa<math::ExpOp>(op) && hasHalves)
    return coarseExponential(builder, op->getLoc(), operands[0]);
  if (isSingle && hasHalves && isReciprocalOfExponential(op))
    return coarseReciprocal(builder, op->getLoc(), operands[1]);
  if (isSingle && isa<math::ExpOp>(op) && plan.kind == KernelKind::Rows)
    return shortExponential(builder, op->getLoc(), operands[0]);
  return cuda::approximate(builder, op, operands);
}

} // namespace dtc::cuda
