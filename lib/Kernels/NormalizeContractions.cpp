#include "EachFunction.h"
#include "StridedView.h"

#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Kernels/MatmulForm.h"
#include "dtc/Kernels/NormalizeContractions.h"
#include "dtc/Kernels/Passes.h"

#include <array>

using namespace mlir;

namespace dtc::kernels {
#define GEN_PASS_DEF_NORMALIZECONTRACTIONS
#include "dtc/Kernels/Passes.h.inc"

namespace {

using IndexOrder = SmallVector<int64_t>;
using TensorSet = std::array<bool, 3>; // of Lhs, Rhs, Result

/// The three tensors of a contraction: in which order each has its indices,
/// and how operands lie in memory.
struct Arrangement {
  std::array<IndexOrder, 3> order;
  std::array<StridedView, 2> operands;
};

/// Of which neighbours in `fine` each dimension of `coarse` is made; none where one isn't.
std::optional<SmallVector<IndexOrder>> partsOf(ArrayRef<int64_t> fine, ArrayRef<int64_t> coarse) {
  SmallVector<IndexOrder> result;
  for (int64_t size : coarse) {
    IndexOrder parts;
    for (int64_t found = 1; found < size || parts.empty(); fine = fine.drop_front()) {
      if (fine.empty())
        return std::nullopt;
      parts.push_back(fine.front());
      found *= fine.front();
    }
    if (llvm::product_of(parts) != size)
      return std::nullopt;
    result.push_back(std::move(parts));
  }
  return fine.empty() ? std::optional(std::move(result)) : std::nullopt;
}

class ContractionRewriter {
public:
  ContractionRewriter(graph::ContractOp op, OpBuilder &builder, target::MatmulLimits limits)
      : op(op), builder(builder), limits(limits), sizes(op.getIndexSizes()) {
    order[Lhs] = IndexOrder(op.getLhsIndices());
    order[Rhs] = IndexOrder(op.getRhsIndices());
    order[Result] = IndexOrder(op.getResultIndices());
  }

  /// Replaces the contraction, with as few bytes copied as possible.
  LogicalResult rewrite() {
    builder.setInsertionPoint(op);
    if (succeeded(rewriteByParts(Lhs)) || succeeded(rewriteByParts(Rhs)) ||
        succeeded(rewriteWithoutCopies()))
      return success();
    for (const TensorSet &copied : copiesToTry())
      for (bool keepsRuns : {true, false})
        for (bool sumsAsInLhs : {true, false})
          if (succeeded(rewriteWithCopies(copied, sumsAsInLhs, keepsRuns)))
            return success();
    return op.emitOpError("has no form as a matrix product");
  }

private:
  std::array<Value, 2> operands() { return {op.getLhs(), op.getRhs()}; }

  LogicalResult rewriteWithoutCopies() {
    std::array<StridedView, 2> traced = {traceView(op.getLhs()), traceView(op.getRhs())};
    std::array<StridedView, 2> dense = {denseView(op.getLhs()), denseView(op.getRhs())};
    for (auto [lhs, rhs] : {std::pair(traced[0], traced[1]), std::pair(traced[0], dense[1]),
                            std::pair(dense[0], traced[1]), std::pair(dense[0], dense[1])}) {
      if (Value result = build({order, {lhs, rhs}})) {
        op.replaceAllUsesWith(result);
        return success();
      }
    }
    return failure();
  }

  /// Key-value heads that are repeated for a group of queries lie at no strides once they and the
  /// repeats are one dimension: [b, t, c, e] as [b, t, (c g), e]. With an index for each part they
  /// do, and nothing is copied.
  LogicalResult rewriteByParts(Tensor operand) {
    auto reshape = operands()[operand].getDefiningOp<graph::ReshapeOp>();
    if (!reshape || traceView(reshape).base != reshape.getResult())
      return failure();
    StridedView view = traceView(reshape.getInput());
    auto parts = partsOf(graph::shapeOf(reshape.getInput()), shapeOf(order[operand]));
    if (!parts || view.base == reshape.getInput())
      return failure();
    ContractionRewriter divided = *this;
    divided.divide(operand, *parts);
    for (bool traced : {true, false}) {
      Arrangement arrangement{divided.order, {view, view}};
      const Tensor other = operand == Lhs ? Rhs : Lhs;
      Value whole = operands()[other];
      StridedView from = traced ? traceView(whole) : denseView(whole);
      auto place =
          sharding::reshaped(shapeOf(order[other]), from, divided.shapeOf(divided.order[other]));
      if (!place)
        continue;
      arrangement.operands[other] = {*place, from.base};
      if (Value result = divided.build(arrangement)) {
        op.replaceAllUsesWith(
            graph::ReshapeOp::create(builder, op.getLoc(), op.getType(), result).getResult());
        return success();
      }
    }
    return failure();
  }

  /// Makes each index several, one for each part of an operand's dimension.
  void divide(Tensor operand, ArrayRef<IndexOrder> parts) {
    SmallVector<IndexOrder> numbers(sizes.size());
    SmallVector<int64_t> divided;
    for (auto [index, size] : llvm::enumerate(sizes)) {
      const auto *dim = llvm::find(order[operand], static_cast<int64_t>(index));
      for (int64_t part :
           dim == order[operand].end() ? IndexOrder{size} : parts[dim - order[operand].begin()]) {
        numbers[index].push_back(static_cast<int64_t>(divided.size()));
        divided.push_back(part);
      }
    }
    for (IndexOrder &indices : order) {
      IndexOrder all;
      for (int64_t index : indices)
        all.append(numbers[index]);
      indices = std::move(all);
    }
    sizes = std::move(divided);
  }

  int64_t elements(int tensor) const {
    int64_t count = 1;
    for (int64_t index : order[tensor])
      count *= sizes[index];
    return count;
  }

  /// Sets of tensors to copy, those with the fewest elements first.
  SmallVector<TensorSet> copiesToTry() const {
    SmallVector<std::pair<int64_t, TensorSet>> sets;
    for (int bits = 1; bits < 8; ++bits) {
      TensorSet set = {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
      int64_t cost = 0;
      for (int tensor : {Lhs, Rhs, Result})
        cost += set[tensor] ? elements(tensor) : 0;
      sets.push_back({cost, set});
    }
    llvm::stable_sort(sets, llvm::less_first());
    return llvm::map_to_vector(sets, [](const auto &entry) { return entry.second; });
  }

  /// The indices of a kind (by presence in lhs, rhs, result) as `tensor` orders them.
  IndexOrder select(Tensor tensor, bool lhs, bool rhs, bool result) const {
    IndexOrder selected;
    for (int64_t index : order[tensor])
      if (llvm::is_contained(order[Lhs], index) == lhs &&
          llvm::is_contained(order[Rhs], index) == rhs &&
          llvm::is_contained(order[Result], index) == result)
        selected.push_back(index);
    return selected;
  }

  /// Whether neighbours in memory are neighbours along one of these indices.
  bool runsAlong(const IndexOrder &indices, int tensor) {
    StridedView view = traceView(operands()[tensor]);
    for (auto [index, stride] : llvm::zip_equal(order[tensor], view.strides))
      if (stride == 1 && sizes[index] > 1)
        return llvm::is_contained(indices, index);
    return false;
  }

  /// The orders after the tensors in `copied` are brought to [batch, m, k], [batch, k, n], [batch,
  /// m, n]. Within a kind they are as a tensor that stays has it. With `keepsRuns` operands may
  /// have their two matrix dimensions the other way round: a copy then moves whole runs of memory,
  /// and may serve several products.
  std::array<IndexOrder, 3> canonicalOrders(const TensorSet &copied, bool sumsAsInLhs,
                                            bool keepsRuns) {
    Tensor batchFrom = !copied[Result] ? Result : !copied[Lhs] ? Lhs : Rhs;
    IndexOrder batch = select(batchFrom, true, true, true);
    IndexOrder m = select(copied[Result] ? Lhs : Result, true, false, true);
    IndexOrder n = select(copied[Result] ? Rhs : Result, false, true, true);
    IndexOrder k = select(sumsAsInLhs ? Lhs : Rhs, true, true, false);
    auto join = [&](const IndexOrder &rows, const IndexOrder &columns) {
      IndexOrder joined = batch;
      joined.append(rows);
      joined.append(columns);
      return joined;
    };
    std::array<IndexOrder, 3> result = {join(m, k), join(k, n), join(m, n)};
    if (keepsRuns && copied[Lhs] && runsAlong(m, Lhs))
      result[Lhs] = join(k, m);
    if (keepsRuns && copied[Rhs] && runsAlong(k, Rhs))
      result[Rhs] = join(n, k);
    for (int tensor : {Lhs, Rhs, Result})
      if (!copied[tensor])
        result[tensor] = order[tensor];
    return result;
  }

  LogicalResult rewriteWithCopies(const TensorSet &copied, bool sumsAsInLhs, bool keepsRuns) {
    Arrangement arrangement;
    arrangement.order = canonicalOrders(copied, sumsAsInLhs, keepsRuns);
    // Try on the shapes first: nothing is built for a form that doesn't exist.
    for (int tensor : {Lhs, Rhs})
      arrangement.operands[tensor] =
          copied[tensor] ? virtualView(arrangement.order[tensor]) : traceView(operands()[tensor]);
    if (!formMatmul(indicesOf(arrangement), limits.rank))
      return failure();
    for (int tensor : {Lhs, Rhs})
      if (copied[tensor])
        arrangement.operands[tensor].base = transpose(
            operands()[tensor], order[tensor], arrangement.order[tensor]);
    Value result = build(arrangement);
    op.replaceAllUsesWith(transpose(result, arrangement.order[Result], order[Result]));
    return success();
  }

  /// A contiguous tensor with these indices that doesn't exist yet.
  StridedView virtualView(const IndexOrder &indices) const {
    return {sharding::dense(shapeOf(indices)), Value()};
  }

  std::vector<ContractionIndex> indicesOf(const Arrangement &arrangement) const {
    std::vector<ContractionIndex> indices(sizes.size());
    for (auto [index, size] : llvm::zip_equal(indices, sizes))
      index.size = size;
    StridedView result = virtualView(arrangement.order[Result]);
    std::array<ArrayRef<int64_t>, 3> strides = {arrangement.operands[0].strides,
                                                arrangement.operands[1].strides, result.strides};
    for (int tensor : {Lhs, Rhs, Result})
      for (auto [index, stride] : llvm::zip_equal(arrangement.order[tensor], strides[tensor]))
        indices[index].strides[tensor] = stride;
    return indices;
  }

  SmallVector<int64_t> shapeOf(const IndexOrder &indices) const {
    return llvm::map_to_vector(indices, [&](int64_t index) { return sizes[index]; });
  }

  Value transpose(Value value, const IndexOrder &from, const IndexOrder &to) {
    if (from == to)
      return value;
    SmallVector<int64_t> perm = llvm::map_to_vector(to, [&](int64_t index) {
      return static_cast<int64_t>(llvm::find(from, index) - from.begin());
    });
    auto type = cast<RankedTensorType>(value.getType()).clone(shapeOf(to));
    return graph::TransposeOp::create(builder, op.getLoc(), type, value, perm);
  }

  /// The product in this arrangement; null if there is none.
  Value build(const Arrangement &arrangement) {
    std::optional<MatmulForm> form = formMatmul(indicesOf(arrangement), limits.rank);
    if (!form)
      return {};
    const StridedView &lhs = arrangement.operands[form->swapped ? 1 : 0];
    const StridedView &rhs = arrangement.operands[form->swapped ? 0 : 1];
    auto type = cast<RankedTensorType>(op.getType()).clone(shapeOf(arrangement.order[Result]));
    auto matmul = exec::MatmulOp::create(
        builder, op.getLoc(), type, /*also=*/Type(), lhs.base, rhs.base, /*extra=*/Value(),
        form->batch, ArrayRef<int64_t>{form->m, form->n, form->k}, form->strides[Lhs],
        form->strides[Rhs], form->strides[Result], ArrayRef<int64_t>{lhs.offset, rhs.offset},
        exec::EpilogueAttr());
    matmul->setDiscardableAttrs(llvm::to_vector(op->getDiscardableAttrs()));
    return matmul.getResult();
  }

  graph::ContractOp op;
  OpBuilder &builder;
  target::MatmulLimits limits;
  SmallVector<int64_t> sizes;
  std::array<IndexOrder, 3> order;
};

struct NormalizeContractions : impl::NormalizeContractionsBase<NormalizeContractions> {
  void runOnOperation() override {
    if (failed(onEachFunction(getOperation(), normalizeContractions)))
      signalPassFailure();
  }
};

} // namespace

LogicalResult normalizeContractions(func::FuncOp function, const target::Target &target) {
  SmallVector<graph::ContractOp> contractions;
  function.walk([&](graph::ContractOp op) { contractions.push_back(op); });
  OpBuilder builder(function.getContext());
  for (graph::ContractOp op : contractions) {
    if (failed(ContractionRewriter(op, builder, target.matmulLimits()).rewrite()))
      return failure();
    op.erase();
  }
  eraseDeadViews(function);
  return success();
}

} // namespace dtc::kernels
