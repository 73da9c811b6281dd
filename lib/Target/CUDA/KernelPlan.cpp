#include "KernelPlan.h"
#include "ThreadEmitter.h"

#include "dtc/Kernels/InPlace.h"

#include <algorithm>

using namespace mlir;

namespace dtc::cuda {

using namespace kernels;

using graph::ReduceOp;
using graph::shapeOf;

/// Below this, threads with one element each fill a GPU better.
static constexpr int64_t kLeastElementsForUnits = 4096;
static constexpr int64_t kPointwiseThreads = 256;
/// Threads of blocks in which no two work together on an item.
static constexpr int64_t kSmallBlock = 128;
/// Rows of at most so many columns are done by one thread.
static constexpr int64_t kOneThreadColumns = 8;
/// More threads would leave each fewer than 128 registers.
static constexpr int64_t kMostRowThreads = 512;
static constexpr int64_t kMostColumnWarps = 16;
/// Rows that a warp of a columns kernel should have at least.
static constexpr int64_t kRowsOfWarp = 8;
static constexpr int64_t kStaticSharedBytes = 48 * 1024;

static int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t KernelPlan::itemsInBlock() const {
  switch (kind) {
  case KernelKind::Rows:
    return threads / lanes;
  case KernelKind::Columns:
    return kWarp;
  case KernelKind::Scatter:
    return threads / kWarp;
  default:
    return threads;
  }
}

/// Neighbouring elements in one access, as the smallest element type allows.
static int64_t elementsOfAccess(const BodyInfo &info) {
  int64_t smallest = kAccessBytes;
  auto add = [&](Value value) {
    if (elementsOf(value) > 1)
      smallest = std::min(smallest, storageBytes(getElementTypeOrSelf(value)));
  };
  llvm::for_each(info.body.getArguments(), add);
  llvm::for_each(info.results, add);
  // Booleans and bytes would need many registers of the other operands.
  return std::clamp<int64_t>(kAccessBytes / smallest, 1, 8);
}

static void planPointwise(const BodyInfo &info, KernelPlan &plan) {
  int64_t elements = elementsOf(info.results[0]);
  for (int64_t unit = elementsOfAccess(info); unit > 1; unit /= 2)
    if (elements % unit == 0 && elements >= kLeastElementsForUnits) {
      plan.unit = unit;
      break;
    }
  plan.items = elements / plan.unit;
  plan.threads = std::min(kPointwiseThreads, ceilDivide(plan.items, kWarp) * kWarp);
}

static int64_t elementsOfPiece(const BodyInfo &info, int64_t piece) {
  return elementsOf(info.body.getArgument(piece * info.ownArguments));
}

/// Units that all pieces have whole ones of. Where one launch does many tensors, units keep the
/// small ones from nothing.
static void planPieces(const BodyInfo &info, KernelPlan &plan) {
  plan.unit = elementsOfAccess(info);
  for (int64_t piece = 0; piece < info.pieces; ++piece)
    while (elementsOfPiece(info, piece) % plan.unit != 0)
      plan.unit /= 2;
  plan.items = elementsOfPiece(info, 0) / plan.unit;
  plan.threads = kPointwiseThreads;
  plan.blocks = 0;
  for (int64_t piece = 0; piece < info.pieces; ++piece) {
    int64_t items = elementsOfPiece(info, piece) / plan.unit;
    plan.pieces.push_back({plan.blocks, items});
    plan.blocks += ceilDivide(items, plan.threads);
  }
}

/// Whether every piece does what the first one does.
static LogicalResult checkPieces(const BodyInfo &info) {
  Operation *kernel = info.body.getParentOp();
  unsigned own = info.ownArguments, shared = own * info.pieces;
  if (own == 0)
    return kernel->emitError("the pieces of a kernel need operands of their own");
  DenseMap<Value, Value> first; // by a value of another piece: the first one's like it
  for (unsigned i = 0; i < info.body.getNumArguments(); ++i) {
    Value like = info.body.getArgument(i < shared ? i % own : i);
    first[info.body.getArgument(i)] = like;
    if (i < shared &&
        (elementsOf(info.body.getArgument(i)) != elementsOfPiece(info, i / own) ||
         getElementTypeOrSelf(info.body.getArgument(i)) != getElementTypeOrSelf(like)))
      return kernel->emitError("has an operand unlike that of its first piece: ") << i;
  }
  auto valueOf = [](Operation *op) {
    auto constant = dyn_cast<arith::ConstantOp>(op);
    auto elements =
        constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
    return elements ? elements.getSplatValue<Attribute>() : Attribute(op->getAttrDictionary());
  };
  for (auto [i, op] : llvm::enumerate(info.body.without_terminator())) {
    Operation *like = info.ops[i % info.ops.size()];
    first[op.getResult(0)] = like->getResult(0);
    bool isAlike = op.getName() == like->getName() && valueOf(&op) == valueOf(like) &&
                   op.getNumOperands() == like->getNumOperands();
    for (unsigned operand = 0; isAlike && operand < op.getNumOperands(); ++operand)
      isAlike = first.lookup(op.getOperand(operand)) == like->getOperand(operand);
    if (!isAlike)
      return op.emitError("differs from that of the first piece of its kernel");
  }
  for (auto [i, value] : llvm::enumerate(info.body.getTerminator()->getOperands()))
    if (first.lookup(value) != info.results[i % info.results.size()])
      return kernel->emitError("has a result unlike that of its first piece: ") << i;
  return success();
}

static void planRows(const BodyInfo &info, KernelPlan &plan) {
  for (Operation *op : info.ops)
    if (auto reduce = dyn_cast<ReduceOp>(op); reduce && !isSmall(reduce))
      plan.items = elementsOf(reduce.getResult());
  SmallVector<int64_t> counts;
  for (const std::vector<ReduceOp> &group : reductionGroups(info, plan.items))
    counts.push_back(elementsOf(ReduceOp(group.front()).getInput()) / plan.items);
  for (const OutputGroup &group : outputGroups(info, plan.items))
    counts.push_back(group.columns);
  int64_t most = *llvm::max_element(counts);
  bool even = llvm::all_of(counts, [](int64_t count) { return count == 1 || count % 4 == 0; });
  if (most <= kOneThreadColumns) {
    plan.threads = std::min(kSmallBlock, ceilDivide(plan.items, kWarp) * kWarp);
    return;
  }
  plan.unit = even && most >= 4 * kWarp ? 4 : 1;
  plan.lanes = std::min(kMostRowThreads, kWarp * ceilDivide(most, kWarp * kMostInRegisters));
  plan.threads = plan.lanes > kWarp ? plan.lanes : std::min(kSmallBlock, plan.items * kWarp);
}

static void planColumns(const BodyInfo &info, KernelPlan &plan) {
  int64_t reduced = 1, bytes = 0;
  for (Operation *op : info.ops)
    if (auto reduce = dyn_cast<ReduceOp>(op); reduce && !isSmall(reduce)) {
      ColumnShape shape = columnShape(reduce);
      plan.items = shape.outer * shape.columns;
      reduced = shape.reduced;
      bytes += storageBytes(computeType(getElementTypeOrSelf(reduce.getType())));
    }
  while (plan.lanes < kMostColumnWarps && plan.lanes * kRowsOfWarp < reduced &&
         2 * plan.lanes * kWarp * bytes <= kStaticSharedBytes)
    plan.lanes *= 2;
  plan.threads = plan.lanes * kWarp;
}

static void planScatter(const BodyInfo &info, KernelPlan &plan) {
  auto op = cast<graph::ScatterAddOp>(specialResult(info).op);
  plan.items = IndexMath::numElements(shapeOf(op.getResult()).take_front(op.getAxis() + 1));
  plan.threads = kSmallBlock;
}

static void planItems(const BodyInfo &info, KernelPlan &plan) {
  plan.items = ItemLoops::itemsOf(info.results[0].getDefiningOp());
  plan.threads = std::min(kSmallBlock, ceilDivide(plan.items, kWarp) * kWarp);
}

static void planThreads(const BodyInfo &info, KernelPlan &plan) {
  switch (plan.kind) {
  case KernelKind::Pointwise:
    if (info.pieces > 1)
      return planPieces(info, plan);
    planPointwise(info, plan);
    break;
  case KernelKind::Rows:
    planRows(info, plan);
    break;
  case KernelKind::Columns:
    planColumns(info, plan);
    break;
  case KernelKind::Scatter:
    planScatter(info, plan);
    break;
  case KernelKind::Scan:
  case KernelKind::Pool:
    planItems(info, plan);
    break;
  }
  plan.blocks = ceilDivide(plan.items, plan.itemsInBlock());
}

/// A result may overwrite an operand each of whose elements is read by the thread that then
/// writes it, or before the threads of a row meet, which they do before they write.
static bool mayOverwrite(const Accesses &accesses, unsigned operand, unsigned result) {
  auto written = accesses.writtenIn.find(result);
  auto reads = accesses.reads.find(operand);
  if (written == accesses.writtenIn.end() || reads == accesses.reads.end())
    return false;
  return llvm::all_of(reads->second.onlyWrittenElement, [&](auto phase) {
    return phase.first == 0 ? reads->second.onlyThisRow
                            : phase.first == written->second && phase.second;
  });
}

FailureOr<KernelPlan> planKernel(Block &body) {
  BodyInfo info(body);
  if (info.results.empty())
    return body.getParentOp()->emitError("a kernel needs a result");
  FailureOr<KernelKind> kind = classify(info);
  if (failed(kind) || (info.pieces > 1 && failed(checkPieces(info))))
    return failure();
  if (info.pieces > 1 && (*kind != KernelKind::Pointwise || !isFlat(info)))
    return body.getParentOp()->emitError("only arithmetic element by element can have pieces");
  KernelPlan plan;
  plan.kind = *kind;
  planThreads(info, plan);
  plan.inPlace.assign(info.results.size() * info.pieces, -1);
  OwningOpRef<ModuleOp> trial(ModuleOp::create(UnknownLoc::get(body.getParentOp()->getContext())));
  OpBuilder builder = OpBuilder::atBlockBegin(trial->getBody());
  ThreadEmitter emitter(info, plan, builder);
  if (failed(emitter.emitFunction("trial")))
    return failure();
  plan.inPlace = chooseInPlace(info, [&](unsigned operand, unsigned result) {
    return operand < info.ownArguments && mayOverwrite(emitter.accesses, operand, result);
  });
  const SmallVector<int64_t> first = plan.inPlace;
  for (int64_t piece = 1; piece < info.pieces; ++piece)
    for (int64_t operand : first)
      plan.inPlace.push_back(operand < 0 ? -1 : piece * info.ownArguments + operand);
  return plan;
}

} // namespace dtc::cuda
