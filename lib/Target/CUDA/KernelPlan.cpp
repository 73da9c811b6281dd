#include "KernelPlan.h"
#include "Across.h"
#include "KeptRows.h"
#include "KernelPieces.h"
#include "ProductTiles.h"
#include "ThreadEmitter.h"
#include "Turns.h"

#include "dtc/Kernels/InPlace.h"
#include "dtc/Sharding/IndexBuckets.h"
#include "dtc/Sharding/RowsAcross.h"

#include <algorithm>

using namespace mlir;

namespace dtc::cuda {

using namespace kernels;

using graph::ReduceOp;
using graph::shapeOf;

/// Below this, threads with one element each fill a GPU better.
static constexpr int64_t kLeastElementsForUnits = 4096;
/// Threads of blocks in which no two work together on an item.
static constexpr int64_t kSmallBlock = 128;
/// What a thread of a pointwise kernel reads at most where its unit may be smaller: three quarters
/// of its 255 registers.
static constexpr int64_t kMostReadBytes = 192 * 4;
/// Rows of at most so many columns are done by one thread.
static constexpr int64_t kOneThreadColumns = 8;
/// More threads would leave each fewer than 128 registers.
static constexpr int64_t kMostRowThreads = 512;
static constexpr int64_t kMostColumnWarps = 8;
/// Threads of a scatter kernel have some columns each, and a block has some rows of the table.
static constexpr int64_t kColumnsOfThread = 4, kMostScatterThreads = 256;
/// Blocks that each read all indices move at most a sixteenth more by that. But they are so many
/// that each finds few of its own.
static constexpr int64_t kShareOfIndices = 16, kIndicesOfBlock = 32;
/// Of what is added to a table, an element has two bytes at least.
static constexpr int64_t kUpdateBytes = 2;
/// Threads that sort a part of the indices.
static constexpr int64_t kBucketThreads = 256;
/// Rows that a warp of a columns kernel should have at least.
static constexpr int64_t kRowsOfWarp = 8;
/// Neighbouring columns of a thread, at most. An H100 is busy with so many blocks of them.
static constexpr int64_t kMostColumnUnit = 4, kBusyColumnBlocks = 264;
static constexpr int64_t kStaticSharedBytes = 48 * 1024;

int64_t KernelPlan::itemsInBlock() const {
  switch (kind) {
  case KernelKind::Rows:
    return threads / lanes;
  case KernelKind::Columns:
    return kWarp;
  case KernelKind::Scatter:
  case KernelKind::Buckets:
  case KernelKind::Products:
    return 1;
  default:
    return threads;
  }
}

int64_t elementsOfAccess(const BodyInfo &info) {
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

void divideElements(int64_t elements, KernelPlan &plan) {
  plan.items = elements / (plan.unit * plan.turns);
  plan.threads = std::min(kPointwiseThreads, ceilDivide(plan.items, kWarp) * kWarp);
}

static void planPointwise(const BodyInfo &info, KernelPlan &plan, int64_t mostUnit) {
  int64_t elements = elementsOf(info.results[0]);
  for (int64_t unit = std::min(elementsOfAccess(info), mostUnit); unit > 1; unit /= 2)
    if (elements % unit == 0 && elements >= kLeastElementsForUnits) {
      plan.unit = unit;
      break;
    }
  if (!planAcross(info, plan))
    planTurns(info, plan);
  divideElements(elements, plan);
}

/// Whether rows that begin within an access can be read by accesses of the whole buffer.
static bool mayBeShifted(const BodyInfo &info, int64_t columns, const KernelPlan &plan) {
  return plan.lanes > 1 && plan.items * columns % elementsOfAccess(info) == 0 &&
         haveColumns(info, columns, plan.items);
}

/// Whether the columns of an operand are further from each other than its rows.
static bool readsRowsAcross(const BodyInfo &info, int64_t elements) {
  auto isAcross = [&](Value made) { return elementsOf(made) == elements && distanceAcross(made); };
  return llvm::any_of(info.results, isAcross) || llvm::any_of(info.ops, [&](Operation *op) {
           auto reduce = dyn_cast<ReduceOp>(op);
           return reduce && isAcross(reduce.getInput());
         });
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
  if (most <= sharding::kMostColumnsAcross && readsRowsAcross(info, plan.items * most)) {
    plan.lanes = kWarp;
    plan.threads = kWarp * std::min(elementsOfSector(info), plan.items);
    return;
  }
  plan.lanes = std::min(kMostRowThreads, kWarp * ceilDivide(most, kWarp * kMostInRegisters));
  // Rows that each pass reads again are read by whole accesses.
  auto isWide = [&](int64_t count) { return count == 1 || count % elementsOfAccess(info) == 0; };
  if (most > plan.lanes * kMostInRegisters) {
    const bool areWide = llvm::all_of(counts, isWide);
    plan.shifted = !areWide && mayBeShifted(info, most, plan);
    if (areWide || plan.shifted)
      plan.unit = std::max(plan.unit, elementsOfAccess(info));
    planKeptRows(info, most, plan);
  }
  plan.threads = plan.lanes > kWarp ? plan.lanes : std::min(kSmallBlock, plan.items * kWarp);
}

static void planColumns(const BodyInfo &info, KernelPlan &plan) {
  int64_t reduced = 1, columns = 1, all = 1, bytes = 0;
  for (Operation *op : info.ops)
    if (auto reduce = dyn_cast<ReduceOp>(op); reduce && !isSmall(reduce)) {
      ColumnShape shape = columnShape(reduce);
      columns = shape.columns;
      all = shape.outer * columns;
      reduced = shape.reduced;
      bytes += storageBytes(computeType(getElementTypeOrSelf(reduce.getType())));
    }
  plan.unit = std::min(elementsOfAccess(info), kMostColumnUnit);
  while (plan.unit > 1 && (columns % plan.unit != 0 || all < kBusyColumnBlocks * kWarp * plan.unit))
    plan.unit /= 2;
  plan.items = all / plan.unit;
  bytes *= plan.unit;
  while (plan.lanes < kMostColumnWarps && plan.lanes * kRowsOfWarp < reduced &&
         2 * plan.lanes * kWarp * bytes <= kStaticSharedBytes)
    plan.lanes *= 2;
  plan.threads = plan.lanes * kWarp;
}

/// Rows of a block where each reads all indices: the fewer blocks, the less they read in vain.
static int64_t rowsOfReadingBlock(const SpecialResult &scatter, int64_t rows, int64_t width) {
  auto op = cast<graph::ScatterAddOp>(scatter.op);
  const int64_t count = elementsOf(op.getIndices()),
                element = storageBytes(getElementTypeOrSelf(op.getType()));
  // A table that has its place already is read and written where something is added.
  const bool isThere = scatter.terms.size() == 1 && isa<BlockArgument>(scatter.terms[0]);
  const int64_t moved = isThere ? 2 * std::min(count, rows) : rows,
                least = width * (moved * element + count * kUpdateBytes),
                indexBytes = count * storageBytes(getElementTypeOrSelf(op.getIndices()));
  const int64_t blocks = std::max({least / std::max<int64_t>(kShareOfIndices * indexBytes, 1),
                                   count / kIndicesOfBlock, int64_t(1)});
  return std::max(sharding::rowsOfBlock(rows), ceilDivide(rows, blocks));
}

static void planScatter(const BodyInfo &info, KernelPlan &plan) {
  const SpecialResult scatter = specialResult(info);
  auto op = cast<graph::ScatterAddOp>(scatter.op);
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  int64_t rows = IndexMath::numElements(shape.take_front(op.getAxis() + 1)),
          width = IndexMath::numElements(shape.drop_front(op.getAxis() + 1));
  plan.lanes = op.getAxis() == 0 ? rowsOfReadingBlock(scatter, rows, width) : 1;
  if (op.getBuckets())
    plan.lanes = static_cast<int64_t>(*op.getBucketRows());
  plan.items = ceilDivide(rows, plan.lanes);
  plan.threads = std::clamp(kWarp * ceilDivide(width, kWarp * kColumnsOfThread), kSmallBlock,
                            kMostScatterThreads);
}

static void planBuckets(const BodyInfo &info, KernelPlan &plan) {
  plan.items = shapeOf(info.results[0]).front();
  plan.threads = kBucketThreads;
}

static void planItems(const BodyInfo &info, KernelPlan &plan) {
  plan.items = ItemLoops::itemsOf(info.results[0].getDefiningOp());
  plan.threads = std::min(kSmallBlock, ceilDivide(plan.items, kWarp) * kWarp);
}

static void planProducts(const BodyInfo &info, KernelPlan &plan) {
  const ProductTiles tiles(cast<exec::GroupedMatmulOp>(info.ops.front()));
  plan.items = tiles.blocks();
  plan.threads = ProductTiles::kThreads;
}

static void planThreads(const BodyInfo &info, KernelPlan &plan, int64_t mostUnit) {
  switch (plan.kind) {
  case KernelKind::Pointwise:
    if (info.pieces > 1)
      return planPieces(info, plan);
    planPointwise(info, plan, mostUnit);
    break;
  case KernelKind::Rows:
    if (!info.joins.empty())
      return planTotals(info, plan);
    planRows(info, plan);
    break;
  case KernelKind::Columns:
    planColumns(info, plan);
    break;
  case KernelKind::Scatter:
    planScatter(info, plan);
    break;
  case KernelKind::Buckets:
    planBuckets(info, plan);
    break;
  case KernelKind::Scan:
  case KernelKind::Pool:
    planItems(info, plan);
    break;
  case KernelKind::Products:
    planProducts(info, plan);
    break;
  }
  plan.blocks = ceilDivide(plan.items, plan.itemsInBlock());
}

/// A result may overwrite an operand in two cases. Each of the operand's elements is read by the
/// thread that then writes it. Or it is read before the threads of a row meet, which they do before
/// they write.
static bool mayOverwrite(const Accesses &accesses, unsigned operand, unsigned result) {
  auto written = accesses.writtenIn.find(result);
  auto reads = accesses.reads.find(operand);
  if (written == accesses.writtenIn.end() || reads == accesses.reads.end())
    return false;
  return llvm::all_of(reads->second, [&](const auto &each) {
    const auto &[phase, inPhase] = each;
    return phase == 0 ? inPhase.onlyThisRow
                      : phase == written->second && inPhase.onlyWrittenElement;
  });
}

namespace {
/// A plan, and what a thread of it does before LLVM sees it.
struct Trial {
  KernelPlan plan;
  Accesses accesses;
  int64_t readBytes = 0;
};
} // namespace

/// Of all that a thread of the function reads.
static int64_t bytesRead(LLVM::LLVMFuncOp function) {
  int64_t bytes = 0;
  function.walk([&](LLVM::LoadOp load) {
    auto vector = dyn_cast<VectorType>(load.getType());
    bytes +=
        storageBytes(getElementTypeOrSelf(load.getType())) * (vector ? vector.getNumElements() : 1);
  });
  return bytes;
}

static FailureOr<Trial> tryPlan(const BodyInfo &info, KernelKind kind, int64_t mostUnit) {
  Trial trial;
  trial.plan.kind = kind;
  planThreads(info, trial.plan, mostUnit);
  trial.plan.inPlace.assign(info.body.getTerminator()->getNumOperands(), -1);
  OwningOpRef<ModuleOp> module(
      ModuleOp::create(UnknownLoc::get(info.body.getParentOp()->getContext())));
  OpBuilder builder = OpBuilder::atBlockBegin(module->getBody());
  ThreadEmitter emitter(info, trial.plan, builder);
  FailureOr<LLVM::LLVMFuncOp> function = emitter.emitFunction("trial");
  if (failed(function))
    return failure();
  trial.accesses = std::move(emitter.accesses);
  trial.readBytes = bytesRead(*function);
  return trial;
}

/// A thread of a pointwise kernel first reads all that its unit needs. A unit that doesn't fit into
/// registers so would spill them: it is halved.
static FailureOr<Trial> tryUnits(const BodyInfo &info, KernelKind kind) {
  FailureOr<Trial> trial = tryPlan(info, kind, kAccessBytes);
  while (succeeded(trial) && kind == KernelKind::Pointwise && info.pieces == 1 &&
         trial->plan.unit > 1 && trial->readBytes > kMostReadBytes)
    trial = tryPlan(info, kind, trial->plan.unit / 2);
  return trial;
}

FailureOr<KernelPlan> planKernel(Block &body) {
  BodyInfo info(body);
  if (info.results.empty())
    return body.getParentOp()->emitError("a kernel needs a result");
  FailureOr<KernelKind> kind = classify(info);
  if (failed(kind) || (info.pieces > 1 && failed(checkPieces(info))))
    return failure();
  FailureOr<Trial> trial = tryUnits(info, *kind);
  if (failed(trial))
    return failure();
  KernelPlan &plan = trial->plan;
  if (!info.joins.empty())
    return plan;
  plan.inPlace = chooseInPlace(info, [&](unsigned operand, unsigned result) {
    return operand < info.ownArguments && mayOverwrite(trial->accesses, operand, result);
  });
  const SmallVector<int64_t> first = plan.inPlace;
  for (int64_t piece = 1; piece < info.pieces; ++piece)
    for (int64_t operand : first)
      plan.inPlace.push_back(operand < 0 ? -1 : piece * info.ownArguments + operand);
  return plan;
}

} // namespace dtc::cuda
