#include "Turns.h"
#include "KernelPieces.h"
#include "ThreadEmitter.h"

using namespace mlir;

namespace dtc::cuda {

using namespace kernels;

using graph::shapeOf;

static constexpr int64_t kMostTurns = 8;
/// Whole accesses that fit into a thread's registers, four each, beside what it computes.
static constexpr int64_t kMostLoads = 20;
/// Each with several accesses on their way, these keep the memory of an H100 busy.
static constexpr int64_t kLeastThreads = 32768;

/// Whether units far from each other may read the same, or differ in what is to be done.
static bool hasSharedReads(const BodyInfo &info) {
  return llvm::any_of(info.ops, [](Operation *op) {
    auto broadcast = dyn_cast<graph::BroadcastOp>(op);
    return isa<graph::ConcatOp, graph::PadOp>(op) ||
           (broadcast && elementsOf(broadcast.getInput()) > 1);
  });
}

/// Elements that units may be apart: the inner dimensions of a result, and half a row.
static SmallVector<int64_t> distances(const BodyInfo &info) {
  ArrayRef<int64_t> shape = shapeOf(info.results[0]);
  SmallVector<int64_t> found;
  int64_t inner = 1;
  for (int64_t size : llvm::reverse(shape)) {
    inner *= size;
    if (found.empty() && size % 2 == 0)
      found.push_back(size / 2);
    found.push_back(inner);
  }
  found.pop_back(); // all of it
  return found;
}

/// Reads of a thread of the kernel, before LLVM sees it.
static std::optional<int64_t> countReads(const BodyInfo &info, KernelPlan plan) {
  divideElements(elementsOf(info.results[0]), plan);
  plan.blocks = ceilDivide(plan.items, plan.itemsInBlock());
  plan.inPlace.assign(info.results.size(), -1);
  OwningOpRef<ModuleOp> trial(
      ModuleOp::create(UnknownLoc::get(info.body.getParentOp()->getContext())));
  OpBuilder builder = OpBuilder::atBlockBegin(trial->getBody());
  if (failed(ThreadEmitter(info, plan, builder).emitFunction("trial")))
    return std::nullopt;
  int64_t reads = 0;
  trial->walk([&](LLVM::LoadOp) { ++reads; });
  return reads;
}

void planTurns(const BodyInfo &info, KernelPlan &plan) {
  const int64_t elements = elementsOf(info.results[0]);
  if (plan.unit == 1 || !hasSharedReads(info) || elements / (2 * plan.unit) < kLeastThreads)
    return;
  std::optional<int64_t> alone = countReads(info, plan);
  if (!alone)
    return;
  KernelPlan best = plan;
  int64_t reads = *alone;
  for (int64_t apart : distances(info)) {
    KernelPlan tried = plan;
    tried.apart = apart;
    tried.turns = kMostTurns;
    while (tried.turns > 1 && (elements % (apart * tried.turns) != 0 ||
                               elements / (tried.turns * plan.unit) < kLeastThreads))
      tried.turns /= 2;
    if (tried.turns == 1 || apart % plan.unit != 0)
      continue;
    std::optional<int64_t> found = countReads(info, tried);
    if (found && *found <= kMostLoads && *found * best.turns < reads * tried.turns) {
      best = tried;
      reads = *found;
    }
  }
  if (2 * reads <= *alone * best.turns) {
    plan.turns = best.turns;
    plan.apart = best.apart;
  }
}

} // namespace dtc::cuda
