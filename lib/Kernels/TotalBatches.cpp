#include "TotalBatches.h"
#include "Updates.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Kernels/KernelBody.h"

#include <map>

using namespace mlir;

namespace dtc::kernels {

using graph::ReduceOp;
using graph::shapeOf;

/// Elements of a part at least, and partial sums of a kernel about at most: more would take the
/// second pass too long.
static constexpr int64_t kLeastPart = 4096, kMostPartialSums = 8192;
/// What is computed of an element for one total is short.
static constexpr size_t kMostOps = 16;

static bool isF32(Value value) { return getElementTypeOrSelf(value).isF32(); }

/// The tensor whose total a scalar is, over one reduction or over several of whose results nothing
/// else is read; null where it is none.
static Value termOf(Value total) {
  Value term = total;
  while (true) {
    auto reduce = term.getDefiningOp<ReduceOp>();
    bool isLink = reduce ? reduce.getKind() == graph::ReduceKind::Sum
                         : isa_and_nonnull<graph::ReshapeOp>(term.getDefiningOp());
    if (!isLink || !term.hasOneUse() || !isF32(term))
      return term != total && isF32(term) && elementsOf(term) > 1 ? term : Value();
    term = term.getDefiningOp()->getOperand(0);
  }
}

static bool isSplat(Operation *op) {
  auto constant = dyn_cast<arith::ConstantOp>(op);
  return constant && isa<SplatElementsAttr>(constant.getValue());
}

namespace {

class Finder {
public:
  Finder(func::FuncOp func, const target::Target &target) : func(func), target(target) {}

  std::vector<Totals> find() {
    for (auto sum : func.getBody().front().getOps<graph::SumOp>())
      if (shapeOf(sum.getResult()).empty() && sum.getInputs().size() > 1)
        for (Value value : sum.getInputs())
          add(sum, value);
    return std::move(found);
  }

private:
  /// Adds what a value of so many elements is computed by.
  bool collect(Value value, int64_t elements, Totals &totals) {
    Operation *op = value.getDefiningOp();
    const bool isScalar = shapeOf(value).empty();
    if (!isScalar && elementsOf(value) != elements)
      return false;
    bool isComputed =
        op && (isSplat(op) || (!isScalar && isa<graph::BroadcastOp, graph::ReshapeOp>(op)) ||
               (!isScalar && graph::isElementwise(op)));
    if (!isComputed) {
      (isScalar ? totals.scalars : totals.tensors).insert(value);
      return isScalar || !op || staysInFunction(op, target);
    }
    if (totals.ops.contains(op))
      return true;
    for (Value operand : op->getOperands())
      if (!collect(operand, elements, totals))
        return false;
    totals.ops.insert(op);
    return totals.ops.size() <= kMostOps;
  }

  bool isOnHost(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && func.getArgAttr(argument.getArgNumber(), dist::DistDialect::kOnHost);
  }

  void add(graph::SumOp sum, Value value) {
    Value term = value.hasOneUse() ? termOf(value) : Value();
    if (!term)
      return;
    Totals fresh;
    if (!collect(term, elementsOf(term), fresh) || fresh.tensors.empty() || !term.getDefiningOp() ||
        !fresh.ops.contains(term.getDefiningOp()) ||
        isa<graph::ReshapeOp, graph::BroadcastOp>(term.getDefiningOp()) ||
        llvm::any_of(fresh.tensors, [&](Value tensor) { return isOnHost(tensor); }))
      return;
    std::vector<uintptr_t> key;
    for (Value tensor : fresh.tensors)
      key.push_back(reinterpret_cast<uintptr_t>(tensor.getAsOpaquePointer()));
    auto [known, isNew] = places.try_emplace(key, found.size());
    if (isNew)
      found.emplace_back();
    Totals &totals = found[known->second];
    totals.ops.insert_range(fresh.ops);
    totals.tensors.insert_range(fresh.tensors);
    totals.scalars.insert_range(fresh.scalars);
    totals.terms.push_back(term);
    totals.values.push_back(value);
    totals.sums.push_back(sum);
  }

  func::FuncOp func;
  const target::Target &target;
  std::vector<Totals> found;
  std::map<std::vector<uintptr_t>, size_t> places; ///< by tensors; only looked up
};

} // namespace

std::vector<Totals> totalsOf(func::FuncOp func, const target::Target &target) {
  return Finder(func, target).find();
}

int64_t partFor(ArrayRef<int64_t> elements) {
  int64_t part = kLeastPart;
  auto sums = [&] {
    int64_t count = 0;
    for (int64_t own : elements)
      count += llvm::divideCeil(own, part);
    return count;
  };
  while (sums() > kMostPartialSums + int64_t(elements.size()))
    part *= 2;
  return part;
}

void replaceTotals(ArrayRef<const Totals *> pieces, ValueRange joined, OpBuilder &builder) {
  SmallVector<Value> totals; // before any sum goes, where they may stand
  for (Value partial : joined)
    totals.push_back(graph::TensorBuilder(builder, partial.getLoc()).sum(partial, {0}));
  for (auto [i, total] : llvm::enumerate(totals)) {
    graph::SumOp sum = pieces.front()->sums[i];
    SmallVector<Value> rest{total};
    llvm::SmallDenseSet<Value> replaced;
    for (const Totals *piece : pieces)
      replaced.insert(piece->values[i]);
    llvm::copy_if(sum.getInputs(), std::back_inserter(rest),
                  [&](Value value) { return !replaced.contains(value); });
    if (rest.size() > 1) {
      sum.getInputsMutable().assign(rest);
      continue;
    }
    sum.getResult().replaceAllUsesWith(rest.front());
    sum.erase();
  }
}

} // namespace dtc::kernels
