#include "KernelPlan.h"
#include "LoopEmitter.h"

#include "dtc/Kernels/InPlace.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace dtc::cpu {

using namespace kernels;

using graph::ReduceOp;
using graph::shapeOf;

/// Columns in a block of a columns kernel: accumulators stay in the first-level cache.
static constexpr int64_t kColumnBlock = 512;
/// Elements that are worth waking a thread for.
static constexpr int64_t kGrainElements = 16384;

int64_t LoopShape::size() const { return IndexMath::numElements(extents); }

namespace {

/// Chooses the values that a rows kernel keeps in scratch memory: those that
/// several loops of a row need and that are dear to compute.
class StashChooser {
public:
  StashChooser(const BodyInfo &info, int64_t rows) : info(info), rows(rows) {}

  std::vector<unsigned> choose();

private:
  void visit(Value value, unsigned loop, int64_t columns);
  int cost(Operation *op) const;
  bool isFrontier(Operation *op) const;

  const BodyInfo &info;
  int64_t rows;
  int64_t columns = 0;
  llvm::DenseMap<Operation *, std::set<unsigned>> loopsOf;
  std::set<Operation *> stopped, kept;
};

} // namespace

void StashChooser::visit(Value value, unsigned loop, int64_t loopColumns) {
  Operation *op = value.getDefiningOp();
  if (!op || stopped.count(op) || !loopsOf[op].insert(loop).second)
    return;
  for (Value operand : op->getOperands())
    visit(operand, loop, loopColumns);
}

/// Processors have instructions for roots and divisions.
static bool isDear(Operation *op) {
  return graph::isDear(op) && !isa<math::SqrtOp, math::RsqrtOp, arith::DivFOp>(op);
}

int StashChooser::cost(Operation *op) const {
  llvm::SetVector<Operation *> needed;
  std::set<unsigned> loads;
  needed.insert(op);
  int total = 0;
  int64_t full = elementsOf(op->getResult(0));
  for (size_t i = 0; i < needed.size(); ++i) {
    if (needed[i] != op && kept.count(needed[i])) {
      total += 1;
      continue;
    }
    total += isDear(needed[i]) ? 10 : 0;
    for (Value operand : needed[i]->getOperands()) {
      if (elementsOf(operand) < full)
        continue;
      if (auto argument = dyn_cast<BlockArgument>(operand))
        loads.insert(argument.getArgNumber());
      else if (!stopped.count(operand.getDefiningOp()))
        needed.insert(operand.getDefiningOp());
    }
  }
  return total + loads.size();
}

/// Some loop needs `op` other than through one common user.
bool StashChooser::isFrontier(Operation *op) const {
  const std::set<unsigned> &loops = loopsOf.at(op);
  for (Operation *user : op->getUsers()) {
    auto known = loopsOf.find(user);
    if (known != loopsOf.end() && known->second == loops &&
        elementsOf(user->getResult(0)) == elementsOf(op->getResult(0)))
      return false;
  }
  return true;
}

std::vector<unsigned> StashChooser::choose() {
  std::vector<std::vector<ReduceOp>> groups = reductionGroups(info, rows);
  unsigned loop = 0;
  for (auto &group : groups)
    stopped.insert(group.begin(), group.end());
  for (auto &group : groups) {
    for (ReduceOp op : group)
      visit(op.getInput(), loop, 0);
    columns = std::max(columns, elementsOf(group.front().getInput()) / rows);
    ++loop;
  }
  for (const OutputGroup &group : outputGroups(info, rows)) {
    if (group.columns == 1)
      continue;
    for (unsigned result : group.results)
      visit(info.results[result], loop, group.columns);
    ++loop;
  }
  std::vector<unsigned> chosen;
  for (auto [number, op] : llvm::enumerate(info.ops)) {
    auto loops = loopsOf.find(op);
    if (loops == loopsOf.end() || loops->second.size() < 2 || columns <= 1 ||
        op->hasTrait<OpTrait::ConstantLike>() ||
        elementsOf(op->getResult(0)) != rows * columns)
      continue;
    if (cost(op) >= 3 && isFrontier(op)) {
      chosen.push_back(number);
      kept.insert(op);
    }
  }
  return chosen;
}

/// The loops before any of them is split.
static void firstLoops(const BodyInfo &info, KernelPlan &plan) {
  auto add = [&](LoopId::Of of, unsigned index, int64_t extent) {
    plan.loops[{of, index}] = {{extent}, {}};
  };
  auto addInLanes = [&](unsigned index, const RowLanes &row) {
    LoopShape &shape = plan.loops[{LoopId::Reduction, index}];
    shape.extents = {row.vectors()};
    if (row.runs > 1)
      shape.extents.insert(shape.extents.begin(), row.runs);
  };
  for (auto [number, op] : llvm::enumerate(info.ops))
    if (auto reduce = dyn_cast<ReduceOp>(op)) {
      int64_t results = elementsOf(reduce.getResult());
      if (addsInLanes(reduce))
        addInLanes(number, RowLanes(reduce));
      else
        add(LoopId::Reduction, number, results ? elementsOf(reduce.getInput()) / results : 0);
    }
  if (plan.kind == KernelKind::Pointwise)
    add(LoopId::Output, 0, elementsOf(info.results[0]));
  for (Operation *op : info.ops) {
    auto reduce = dyn_cast<ReduceOp>(op);
    if (!reduce || isSmall(reduce))
      continue;
    if (plan.kind == KernelKind::Rows)
      plan.rows = elementsOf(reduce.getResult());
    if (plan.kind == KernelKind::Columns)
      add(LoopId::Output, 0, columnShape(reduce).columns);
  }
  if (plan.kind == KernelKind::Rows)
    for (auto [number, group] : llvm::enumerate(outputGroups(info, plan.rows)))
      add(LoopId::Output, number, group.columns);
}

/// What follows from the extents of the loops.
static void deriveExtent(const BodyInfo &info, KernelPlan &plan) {
  Value result = info.results[0];
  switch (plan.kind) {
  case KernelKind::Pointwise: {
    const LoopShape &shape = plan.loops.at({LoopId::Output, 0});
    plan.extent = shape.extents.size() == 1 ? shape.inner() : shape.size() / shape.inner();
    break;
  }
  case KernelKind::Rows:
    plan.extent = plan.rows;
    break;
  case KernelKind::Columns: {
    const LoopShape &shape = plan.loops.at({LoopId::Output, 0});
    int64_t count = (shape.inner() + kColumnBlock - 1) / kColumnBlock;
    plan.block = ((shape.inner() + count - 1) / count + 15) / 16 * 16;
    plan.blocks = (shape.inner() + plan.block - 1) / plan.block;
    plan.extent = elementsOf(result) / shape.inner() * plan.blocks;
    break;
  }
  case KernelKind::Scatter: {
    auto op = cast<graph::ScatterAddOp>(specialResult(info).op);
    plan.extent = IndexMath::numElements(shapeOf(result).take_front(op.getAxis() + 1));
    break;
  }
  case KernelKind::Buckets:
  case KernelKind::Scan:
  case KernelKind::Pool:
  case KernelKind::Products: // refused before
    plan.extent = ItemLoops::itemsOf(result.getDefiningOp());
    break;
  }
}

static void deriveScratch(const BodyInfo &info, KernelPlan &plan) {
  if (plan.kind == KernelKind::Columns)
    for (Operation *op : info.ops)
      plan.scratchBytes += isa<ReduceOp>(op) ? plan.block * 8 : 0;
  if (plan.kind != KernelKind::Rows)
    return;
  for (unsigned op : StashChooser(info, plan.rows).choose()) {
    plan.stashes.push_back({op, plan.scratchBytes});
    Value value = info.ops[op]->getResult(0);
    int64_t bytes = elementsOf(value) / plan.rows *
                    storageBytes(computeType(getElementTypeOrSelf(value)));
    plan.scratchBytes += (bytes + 63) / 64 * 64;
  }
}

static void deriveGrain(const BodyInfo &info, KernelPlan &plan) {
  int64_t work = 1;
  for (Value value : info.body.getArguments())
    work = std::max(work, elementsOf(value));
  for (Value value : info.results)
    work = std::max(work, elementsOf(value));
  int64_t each = std::max<int64_t>(1, work / plan.extent);
  plan.grain = std::max<int64_t>(1, kGrainElements / each);
  // Each call looks through all indices.
  if (plan.kind == KernelKind::Scatter)
    plan.grain = std::max(plan.grain, plan.extent / 16);
}

/// Results may overwrite operands that are read, element by element, no later than they are
/// written.
static void deriveInPlace(const BodyInfo &info, const Accesses &accesses, KernelPlan &plan) {
  plan.inPlace = chooseInPlace(info, [&](unsigned operand, unsigned result) {
    auto written = accesses.writtenIn.find(result);
    auto reads = accesses.reads.find(operand);
    if (written == accesses.writtenIn.end() || reads == accesses.reads.end())
      return false;
    const bool onlyThisRow =
        llvm::all_of(reads->second, [](const auto &each) { return each.second.onlyThisRow; });
    return llvm::all_of(reads->second, [&](const auto &each) {
      const auto &[loop, inLoop] = each;
      return loop == written->second ? inLoop.onlyWrittenElement
                                     : loop < written->second && onlyThisRow;
    });
  });
}

static void split(LoopShape &shape, unsigned position, int64_t inner) {
  int64_t outer = shape.extents[position] / inner;
  shape.extents[position] = inner;
  shape.extents.insert(shape.extents.begin() + position, outer);
  if (position + 2 == shape.extents.size())
    shape.cuts.clear();
}

FailureOr<KernelPlan> planKernel(Block &body) {
  BodyInfo info(body);
  if (info.results.empty())
    return body.getParentOp()->emitError("a kernel needs a result");
  KernelPlan plan;
  FailureOr<KernelKind> kind = classify(info);
  if (failed(kind))
    return failure();
  plan.kind = *kind;
  if (plan.kind == KernelKind::Buckets)
    return info.ops.front()->emitError("buckets of indices are for GPUs alone");
  if (plan.kind == KernelKind::Products)
    return info.ops.front()->emitError("products with matrices of experts are for GPUs alone");
  firstLoops(info, plan);
  deriveExtent(info, plan);
  deriveScratch(info, plan);
  plan.flat = plan.kind == KernelKind::Pointwise && isFlat(info);
  while (true) {
    MLIRContext *context = body.getParentOp()->getContext();
    OwningOpRef<ModuleOp> trial(ModuleOp::create(UnknownLoc::get(context)));
    OpBuilder builder = OpBuilder::atBlockBegin(trial->getBody());
    LoopEmitter emitter(info, plan, builder);
    if (failed(emitter.emitFunction("trial")))
      return failure();
    const Findings &findings = emitter.findings;
    if (findings.split) {
      split(plan.loops[findings.split->loop], findings.split->position, findings.split->inner);
      deriveExtent(info, plan);
    } else if (findings.cut) {
      plan.loops[findings.cut->first].cuts.insert(findings.cut->second);
    } else {
      deriveInPlace(info, emitter.accesses, plan);
      deriveGrain(info, plan);
      return plan;
    }
  }
}

} // namespace dtc::cpu
