#include "KeptRows.h"
#include "ThreadEmitter.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace dtc::cuda {

using namespace kernels;

using graph::ReduceKind;
using graph::ReduceOp;

/// What a block may have on all GPUs from sm_80 on, and of that what reductions among its warps
/// take at most. Two blocks of so much are on an H100's multiprocessor.
static constexpr int64_t kBlockBytes = 99 * 1024, kReductionBytes = 512;
static constexpr unsigned kSharedSpace = static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared);

/// The operands that values of a row are computed from, beside sums and maxima of rows.
static void addOperands(Value from, llvm::SmallPtrSetImpl<Value> &known,
                        llvm::SmallPtrSetImpl<Value> &operands) {
  if (!known.insert(from).second)
    return;
  if (isa<BlockArgument>(from)) {
    operands.insert(from);
    return;
  }
  Operation *op = from.getDefiningOp();
  if (auto reduce = dyn_cast<ReduceOp>(op); reduce && !isSmall(reduce))
    return;
  for (Value operand : op->getOperands())
    addOperands(operand, known, operands);
}

/// By pass over rows of so many columns. A maximum and the sum behind it may be one.
static SmallVector<SmallVector<Value>> valuesOfPasses(const BodyInfo &info, int64_t columns,
                                                      int64_t rows) {
  SmallVector<SmallVector<Value>> passes;
  const auto groups = reductionGroups(info, rows);
  for (size_t i = 0; i < groups.size(); ++i) {
    bool isJoined = i == 1 && groups[0].size() == 1 && groups[1].size() == 1 &&
                    ReduceOp(groups[0][0]).getKind() == ReduceKind::Max &&
                    ReduceOp(groups[1][0]).getKind() == ReduceKind::Sum;
    if (!isJoined)
      passes.emplace_back();
    for (ReduceOp op : groups[i])
      passes.back().push_back(op.getInput());
  }
  for (const OutputGroup &group : outputGroups(info, rows))
    if (group.columns == columns)
      passes.push_back(llvm::map_to_vector(group.results,
                                           [&](unsigned result) { return info.results[result]; }));
  return passes;
}

bool haveColumns(const BodyInfo &info, int64_t columns, int64_t rows) {
  return llvm::all_of(reductionGroups(info, rows),
                      [&](const std::vector<ReduceOp> &group) {
                        return elementsOf(ReduceOp(group.front()).getInput()) == rows * columns;
                      }) &&
         llvm::all_of(outputGroups(info, rows), [&](const OutputGroup &group) {
           return group.columns == 1 || group.columns == columns;
         });
}

void planKeptRows(const BodyInfo &info, int64_t columns, KernelPlan &plan) {
  const auto passes = valuesOfPasses(info, columns, plan.items);
  const int64_t sums = llvm::count_if(info.ops, [](Operation *op) { return isa<ReduceOp>(op); });
  if (passes.size() < 2 || plan.unit == 1 || (columns % plan.unit != 0 && !plan.shifted) ||
      !haveColumns(info, columns, plan.items) ||
      sums * (plan.lanes / kWarp) * static_cast<int64_t>(sizeof(double)) > kReductionBytes)
    return;
  llvm::SmallPtrSet<Value, 8> known, first, knownLater, later;
  for (Value value : passes.front())
    addOperands(value, known, first);
  for (const auto &pass : ArrayRef(passes).drop_front())
    for (Value value : pass)
      addOperands(value, knownLater, later);
  for (BlockArgument operand : info.body.getArguments()) {
    const int64_t bytes = columns * storageBytes(getElementTypeOrSelf(operand));
    const int64_t end = llvm::alignTo(plan.sharedBytes + bytes, kAccessBytes);
    if (!first.contains(operand) || !later.contains(operand) ||
        elementsOf(operand) != plan.items * columns || end > kBlockBytes - kReductionBytes)
      continue;
    plan.kept.push_back({operand.getArgNumber(), plan.sharedBytes});
    plan.sharedBytes = end;
  }
}

/// Where an access of a kept operand is kept, as an element of the row: null where it isn't of the
/// units that the thread is at. Columns before a row's first whole access aren't kept.
AffineExpr ThreadEmitter::placeInRow(AffineExpr first, int64_t width) {
  if (!rowVariable)
    return {};
  AffineExpr start = math.multiply(rowVariable, openColumns);
  for (const ColumnUnit &unit : openUnits)
    for (int64_t at = 0; at + width <= unit.width; at += width)
      if (AffineExpr column = math.add(unit.first, at); math.add(start, column) == first)
        return math.add(column, math.multiply(columnsAhead, -1));
  return {};
}

Value ThreadEmitter::keptAddress(const KernelPlan::KeptOperand &kept, AffineExpr column,
                                 Type element) {
  if (!keptRows) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(function);
    keptRows = LLVM::GlobalOp::create(
        builder, loc, LLVM::LLVMArrayType::get(builder.getI8Type(), 0), /*isConstant=*/false,
        LLVM::Linkage::External, (function.getName() + "_kept").str(), Attribute(), kAccessBytes,
        kSharedSpace);
  }
  Value place = evaluator.lower(column), offset = evaluator.constantInt(kept.offset);
  evaluator.position();
  Value base = LLVM::AddressOfOp::create(builder, loc, keptRows);
  base = LLVM::GEPOp::create(builder, loc, base.getType(), builder.getI8Type(), base,
                             ArrayRef<LLVM::GEPArg>{offset});
  return LLVM::GEPOp::create(builder, loc, base.getType(), element, base,
                             ArrayRef<LLVM::GEPArg>{place});
}

/// Whatever a pass computes of them: later ones count on it.
void ThreadEmitter::keepUnits() {
  if (!isFirstPass)
    return;
  for (const KernelPlan::KeptOperand &kept : plan.kept)
    for (const ColumnUnit &unit : openUnits)
      for (int64_t at = 0; at < unit.width; ++at)
        elementOfAccess(kept.operand, math.add(math.multiply(rowVariable, openColumns),
                                               math.add(unit.first, at)));
}

Value ThreadEmitter::loadAccess(unsigned argument, AffineExpr first, VectorType type) {
  const auto *kept = llvm::find_if(plan.kept, [&](const KernelPlan::KeptOperand &operand) {
    return operand.operand == argument;
  });
  const auto alignment =
      static_cast<unsigned>(type.getNumElements() * storageBytes(type.getElementType()));
  AffineExpr column;
  if (kept != plan.kept.end())
    column = placeInRow(first, type.getNumElements());
  if (column && !isFirstPass) {
    Value from = keptAddress(*kept, column, type.getElementType());
    return LLVM::LoadOp::create(builder, loc, type, from, alignment);
  }
  Value from = address(arguments[argument], first, type.getElementType());
  evaluator.position();
  Value loaded = LLVM::LoadOp::create(builder, loc, type, from, alignment);
  if (column)
    LLVM::StoreOp::create(builder, loc, loaded, keptAddress(*kept, column, type.getElementType()),
                          alignment);
  return loaded;
}

} // namespace dtc::cuda
