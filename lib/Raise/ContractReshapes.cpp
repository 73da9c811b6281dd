// Reshapes around contractions become more indices of the contraction.
//
// Merged batch and sequence are taken apart again, and heads that a reshape
// splits out of a projection's result are split in its weight:
//
//   reshape(contract(reshape(x[b,s,k]) [(b s),k], W[k,(h e)])) -> [b,s,h,e]
//   contract(x[b,s,k], reshape(W)[k,h,e]) -> [b,s,h,e]
#include "Reshapes.h"

using namespace mlir;

namespace dtc::raise {

namespace {

/// A contraction whose indices are split into several.
class SplitContract {
public:
  explicit SplitContract(graph::ContractOp op) : op(op) {
    for (int64_t size : op.getIndexSizes())
      sizes.push_back({size});
  }

  /// Index `index` becomes one index per size; an index of size 1 may vanish.
  void split(int64_t index, Shape parts) { sizes[index] = std::move(parts); }
  bool changes() const {
    return llvm::any_of(sizes, [](const Shape &parts) { return parts.size() != 1; });
  }

  /// The contraction of `lhs` and `rhs`, which are reshaped as needed.
  Value build(Emitter &emit, Value lhs, Value rhs) {
    Shape first;
    int64_t next = 0;
    for (const Shape &parts : sizes) {
      first.push_back(next);
      next += parts.size();
    }
    auto wide = [&](ArrayRef<int64_t> indices) {
      Shape result;
      for (int64_t index : indices)
        for (size_t i = 0; i < sizes[index].size(); ++i)
          result.push_back(first[index] + i);
      return result;
    };
    auto operand = [&](Value value, ArrayRef<int64_t> indices) {
      Shape shape;
      for (int64_t index : indices)
        shape.append(sizes[index]);
      return reshape(emit, value, shape);
    };
    Shape shape;
    for (int64_t index : op.getResultIndices())
      shape.append(sizes[index]);
    return graph::ContractOp::create(emit, op.getType().clone(shape),
                                     operand(lhs, op.getLhsIndices()),
                                     operand(rhs, op.getRhsIndices()), wide(op.getLhsIndices()),
                                     wide(op.getRhsIndices()), wide(op.getResultIndices()));
  }

private:
  graph::ContractOp op;
  SmallVector<Shape> sizes;
};

/// reshape(contract) that splits dimensions: they are split in the operands.
struct HoistThroughContract : HoistThrough<graph::ContractOp> {
  using HoistThrough::HoistThrough;
  Value widen(Emitter &emit, graph::ContractOp op, const Split &split) const override {
    SplitContract wide(op);
    for (auto [index, sizes] : llvm::zip(op.getResultIndices(), split.sizes))
      wide.split(index, sizes);
    return wide.build(emit, op.getLhs(), op.getRhs());
  }
};

/// contract(reshape(x), y) where the reshape merges dimensions.
struct SinkThroughContract : OpRewritePattern<graph::ContractOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ContractOp op, PatternRewriter &rewriter) const override {
    SplitContract split(op);
    for (bool left : {true, false}) {
      collect(op, left, split);
      collectUnits(op, left, split);
    }
    if (!split.changes())
      return failure();
    Emitter emit(op.getLoc(), rewriter);
    Value wide = split.build(emit, op.getLhs(), op.getRhs());
    rewriter.replaceOp(op, reshape(emit, wide, graph::shapeOf(op.getResult())));
    return success();
  }

  static std::optional<Runs> runsOf(Value value) {
    auto reshape = value.getDefiningOp<graph::ReshapeOp>();
    if (!reshape)
      return std::nullopt;
    return collapseRuns(graph::shapeOf(reshape.getInput()), graph::shapeOf(value));
  }

  /// Splits the indices of one operand that its reshape merged.
  static void collect(graph::ContractOp op, bool left, SplitContract &split) {
    Value value = left ? op.getLhs() : op.getRhs(), other = left ? op.getRhs() : op.getLhs();
    auto indices = left ? op.getLhsIndices() : op.getRhsIndices();
    auto otherIndices = left ? op.getRhsIndices() : op.getLhsIndices();
    const auto runs = runsOf(value);
    if (!runs)
      return;
    auto wide = graph::shapeOf(value.getDefiningOp<graph::ReshapeOp>().getInput());
    for (auto [index, run] : llvm::zip(indices, *runs)) {
      const Shape sizes = runSizes(wide, run);
      if (sizes.size() == 1)
        continue;
      const auto *shared = llvm::find(otherIndices, index);
      const bool isShared = shared != otherIndices.end();
      const bool inResult = llvm::is_contained(op.getResultIndices(), index);
      // Dimensions of size 1 are no reason for further indices, but for a batch of one.
      const int64_t large = llvm::count_if(sizes, [](int64_t size) { return size != 1; });
      if (large < 2 && (isShared || run[0] != 0))
        continue;
      // A batch index is split only where both operands merged it alike.
      if (isShared && inResult && !mergedAlike(other, shared - otherIndices.begin(), sizes))
        continue;
      split.split(index, sizes);
    }
  }

  /// Drops indices of size 1 of an operand whose reshape adds or moves them.
  static void collectUnits(graph::ContractOp op, bool left, SplitContract &split) {
    auto reshape = (left ? op.getLhs() : op.getRhs()).getDefiningOp<graph::ReshapeOp>();
    if (!reshape)
      return;
    auto from = graph::shapeOf(reshape.getInput()), to = graph::shapeOf(reshape.getResult());
    if (!differsInUnits(from, to))
      return;
    auto own = left ? op.getLhsIndices() : op.getRhsIndices();
    auto others = left ? op.getRhsIndices() : op.getLhsIndices();
    size_t next = 0;
    for (auto [index, size] : llvm::zip(own, to)) {
      const bool isBatch = llvm::is_contained(others, index) &&
                           llvm::is_contained(op.getResultIndices(), index);
      if (next < from.size() && from[next] == size)
        ++next;
      else if (size == 1 && !isBatch)
        split.split(index, {});
    }
  }

  static bool mergedAlike(Value value, int64_t dim, const Shape &sizes) {
    const auto runs = runsOf(value);
    return runs && runSizes(graph::shapeOf(
                                value.getDefiningOp<graph::ReshapeOp>().getInput()),
                            (*runs)[dim]) == sizes;
  }
};
} // namespace

void addContractReshapePatterns(RewritePatternSet &patterns) {
  patterns.add<HoistThroughContract, SinkThroughContract>(patterns.getContext());
}

} // namespace dtc::raise
