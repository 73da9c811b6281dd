#include "dtc/Kernels/KernelBody.h"
#include "dtc/Dialect/Exec/GroupedMatmulOp.h"
#include "dtc/Kernels/IndexMath.h"

using namespace mlir;

namespace dtc::kernels {

using graph::ReduceOp;
using graph::shapeOf;

/// Reductions of at most this many elements may be written out inside pointwise kernels.
static constexpr int64_t kSmallReduction = 16;

BodyInfo::BodyInfo(Block &body) : body(body), ownArguments(body.getNumArguments()) {
  auto kernel = dyn_cast_or_null<exec::KernelOp>(body.getParentOp());
  if (kernel && kernel.getPieces() > 1) {
    pieces = kernel.getPieces();
    while (ownArguments > 0 && elementsOf(body.getArgument(ownArguments - 1)) == 1)
      --ownArguments;
    ownArguments /= pieces;
    joins = exec::joinsOf(kernel);
  }
  const size_t numOps = (body.getOperations().size() - 1 - joins.size()) / pieces;
  for (Operation &op : body.without_terminator()) {
    if (ops.size() == numOps)
      break;
    indexOf[&op] = ops.size();
    ops.push_back(&op);
  }
  OperandRange yielded = body.getTerminator()->getOperands();
  llvm::append_range(results,
                     joins.empty() ? yielded.take_front(yielded.size() / pieces) : yielded);
}

int64_t elementsOf(Value value) { return IndexMath::numElements(shapeOf(value)); }
int64_t elementsOf(Operation *op) { return elementsOf(op->getResult(0)); }

bool reducesInnermost(ReduceOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  for (int64_t dim = shape.size() - 1; dim >= 0; --dim)
    if (shape[dim] != 1)
      return llvm::is_contained(op.getDims(), dim);
  return true;
}

ColumnShape columnShape(ReduceOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  ColumnShape result;
  int64_t firstColumn = shape.size();
  while (firstColumn > 0 && (!llvm::is_contained(op.getDims(), firstColumn - 1)))
    --firstColumn;
  for (int64_t dim = 0; dim < static_cast<int64_t>(shape.size()); ++dim) {
    if (llvm::is_contained(op.getDims(), dim)) {
      result.reducedDims.push_back(dim);
      result.reduced *= shape[dim];
    } else if (dim >= firstColumn) {
      result.columnDims.push_back(dim);
      result.columns *= shape[dim];
    } else {
      result.outerDims.push_back(dim);
      result.outer *= shape[dim];
    }
  }
  return result;
}

bool hasOwnLoops(Operation *op) {
  auto inKernels = dyn_cast<KernelOpInterface>(op);
  return inKernels && inKernels.hasOwnLoops();
}

std::optional<PartialSum> partialSum(graph::ConcatOp join, int64_t piece) {
  auto reduce = join.getInputs()[piece].getDefiningOp<ReduceOp>();
  auto parts = reduce ? reduce.getInput().getDefiningOp<graph::ReshapeOp>() : nullptr;
  auto pad = parts ? parts.getInput().getDefiningOp<graph::PadOp>() : nullptr;
  if (!pad || reduce.getKind() != graph::ReduceKind::Sum ||
      reduce.getDims() != ArrayRef<int64_t>{1} || shapeOf(parts.getResult()).size() != 2 ||
      pad.getLow() != ArrayRef<int64_t>{0} || pad.getInterior() != ArrayRef<int64_t>{0} ||
      !pad.getValue().isZero())
    return std::nullopt;
  ArrayRef<int64_t> shape = shapeOf(parts.getResult());
  return PartialSum{reduce, pad.getInput(), shape[0], shape[1]};
}

/// True if a value that depends on `op` has more elements than its result.
static bool isSpread(ReduceOp op) {
  int64_t elements = elementsOf(op.getResult());
  llvm::SetVector<Operation *> dependent;
  dependent.insert(op);
  for (size_t i = 0; i < dependent.size(); ++i)
    for (Operation *user : dependent[i]->getUsers()) {
      if (user->hasTrait<OpTrait::IsTerminator>())
        continue;
      if (elementsOf(user->getResult(0)) > elements)
        return true;
      dependent.insert(user);
    }
  return false;
}

bool isSmall(ReduceOp op) {
  int64_t results = elementsOf(op.getResult());
  return elementsOf(op.getInput()) <= results * kSmallReduction && !isSpread(op);
}

SpecialResult specialResult(const BodyInfo &info) {
  Operation *root = info.results[0].getDefiningOp();
  SpecialResult result;
  if (!isa_and_nonnull<graph::SumOp, arith::AddFOp>(root)) {
    result.op = root;
    return result;
  }
  for (Value operand : root->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (!result.op && isa_and_nonnull<graph::ScatterAddOp>(producer))
      result.op = producer;
    else
      result.terms.push_back(operand);
  }
  return result;
}

FailureOr<KernelKind> classify(const BodyInfo &info) {
  if (!info.joins.empty())
    return KernelKind::Rows;
  SmallVector<Operation *> special;
  SmallVector<ReduceOp> large;
  for (Operation *op : info.ops) {
    if (hasOwnLoops(op))
      special.push_back(op);
    if (auto reduce = dyn_cast<ReduceOp>(op); reduce && !isSmall(reduce))
      large.push_back(reduce);
  }
  for (Value result : info.results)
    if (elementsOf(result) == 0)
      return info.body.getParentOp()->emitError("a kernel cannot have an empty result");
  if (!special.empty()) {
    if (special.size() > 1 || info.results.size() != 1 ||
        specialResult(info).op != special[0] || !special[0]->hasOneUse() || !large.empty())
      return special[0]->emitError("must be the only result of its kernel");
    if (isa<graph::ScatterAddOp>(special[0]))
      return KernelKind::Scatter;
    if (isa<graph::BucketIndicesOp>(special[0]))
      return KernelKind::Buckets;
    if (isa<exec::GroupedMatmulOp>(special[0])) {
      if (info.ops.size() > 1)
        return special[0]->emitError("must be the only op of its kernel");
      return KernelKind::Products;
    }
    return isa<graph::MaxPoolGradOp>(special[0]) ? KernelKind::Pool : KernelKind::Scan;
  }
  if (large.empty()) {
    for (Value result : info.results)
      if (elementsOf(result) != elementsOf(info.results[0]))
        return info.body.getParentOp()->emitError(
            "the results of a kernel without reductions must have equally many elements");
    return KernelKind::Pointwise;
  }
  bool rows = reducesInnermost(large[0]);
  for (ReduceOp reduce : large)
    if (reducesInnermost(reduce) != rows ||
        elementsOf(reduce.getResult()) != elementsOf(large[0].getResult()))
      return reduce.emitError("does not reduce the same rows as the kernel's other reductions");
  if (rows) {
    for (Value result : info.results)
      if (elementsOf(result) % elementsOf(large[0].getResult()) != 0)
        return info.body.getParentOp()->emitError("a result is not made of the kernel's rows");
    return KernelKind::Rows;
  }
  for (ReduceOp reduce : large) {
    ColumnShape a = columnShape(reduce), b = columnShape(large[0]);
    if (a.outer != b.outer || a.reduced != b.reduced || a.columns != b.columns)
      return reduce.emitError("does not reduce the same rows as the kernel's other reductions");
  }
  for (Value result : info.results)
    if (elementsOf(result) != elementsOf(large[0].getResult()))
      return info.body.getParentOp()->emitError("a result is not made of the kernel's columns");
  return KernelKind::Columns;
}

static bool isRowReduction(ReduceOp op, int64_t rows) {
  return elementsOf(op.getResult()) == rows && reducesInnermost(op) &&
         elementsOf(op.getInput()) > 0;
}

std::vector<std::vector<ReduceOp>> reductionGroups(const BodyInfo &info, int64_t rows) {
  DenseMap<Operation *, int> level;
  std::map<int, std::vector<std::vector<ReduceOp>>> byLevel;
  for (Operation *op : info.ops) {
    int deepest = 0;
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        deepest = std::max(deepest, level.lookup(producer));
    auto reduce = dyn_cast<ReduceOp>(op);
    if (!reduce || !isRowReduction(reduce, rows)) {
      level[op] = deepest;
      continue;
    }
    level[op] = deepest + 1;
    auto &groups = byLevel[deepest + 1];
    auto same = llvm::find_if(groups, [&](const std::vector<ReduceOp> &group) {
      ReduceOp first = group.front();
      return shapeOf(first.getInput()) == shapeOf(reduce.getInput()) &&
             first.getDims() == reduce.getDims();
    });
    if (same != groups.end())
      same->push_back(reduce);
    else
      groups.push_back({reduce});
  }
  std::vector<std::vector<ReduceOp>> all;
  for (auto &[number, groups] : byLevel)
    all.insert(all.end(), groups.begin(), groups.end());
  return all;
}

std::vector<OutputGroup> outputGroups(const BodyInfo &info, int64_t rows) {
  std::vector<OutputGroup> groups;
  for (auto [i, result] : llvm::enumerate(info.results)) {
    int64_t columns = elementsOf(result) / rows;
    auto same = llvm::find_if(groups, [&](const auto &group) { return group.columns == columns; });
    if (same == groups.end())
      same = groups.insert(groups.end(), {columns, {}});
    same->results.push_back(i);
  }
  return groups;
}

/// Whether ops do the same to each of so many elements; scalars are the same for all of them.
static bool isFlat(const BodyInfo &info, ArrayRef<Operation *> ops, int64_t elements) {
  auto fits = [&](Value value) {
    return shapeOf(value).empty() || elementsOf(value) == elements;
  };
  for (Operation *op : ops) {
    bool allowed = graph::isElementwise(op) || isa<graph::SumOp, graph::ReshapeOp>(op);
    if (auto broadcast = dyn_cast<graph::BroadcastOp>(op))
      allowed = shapeOf(broadcast.getInput()).empty();
    if (auto value = dyn_cast<arith::ConstantOp>(op)) {
      auto elements = dyn_cast<DenseElementsAttr>(value.getValue());
      allowed = elements && elements.isSplat();
    }
    if (!allowed || !fits(op->getResult(0)))
      return false;
  }
  Block::BlockArgListType arguments = info.body.getArguments();
  return llvm::all_of(arguments.take_front(info.ownArguments), fits) &&
         llvm::all_of(arguments.drop_front(info.ownArguments * info.pieces), fits);
}

bool isFlat(const BodyInfo &info) {
  const int64_t elements = elementsOf(info.results[0]);
  return isFlat(info, info.ops, elements) && llvm::all_of(info.results, [&](Value value) {
           return shapeOf(value).empty() || elementsOf(value) == elements;
         });
}

bool addsUpFlat(const BodyInfo &info) {
  llvm::SmallPtrSet<Operation *, 8> adding;
  std::optional<PartialSum> first;
  for (graph::ConcatOp join : info.joins)
    for (int64_t piece = 0; piece < info.pieces; ++piece) {
      std::optional<PartialSum> sum = partialSum(join, piece);
      if (!sum || (first && sum->elements != first->elements) ||
          shapeOf(sum->term) !=
              ArrayRef(elementsOf(info.body.getArgument(piece * info.ownArguments))) ||
          static_cast<uint64_t>(sum->parts) !=
              llvm::divideCeil(elementsOf(sum->term), sum->elements))
        return false;
      if (!first)
        first = sum;
      Operation *parts = sum->reduce.getInput().getDefiningOp();
      adding.insert_range(
          ArrayRef<Operation *>{sum->reduce, parts, parts->getOperand(0).getDefiningOp()});
    }
  SmallVector<Operation *> rest;
  llvm::copy_if(info.ops, std::back_inserter(rest),
                [&](Operation *op) { return !adding.contains(op); });
  return first && isFlat(info, rest, elementsOf(first->term));
}

} // namespace dtc::kernels
