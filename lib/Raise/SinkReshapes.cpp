// Reshapes that merge dimensions move down, past whatever does not mind.
#include "Reshapes.h"

using namespace mlir;

namespace dtc::raise {

/// `broadcast` to `wide` instead of the shape merged from it.
static Value widenBroadcast(Emitter &emit, graph::BroadcastOp broadcast, ArrayRef<int64_t> wide,
                            const Runs &runs) {
  SmallVector<Shape> sizes;
  Shape dims;
  for (int64_t dim : broadcast.getDims()) {
    sizes.push_back(runSizes(wide, runs[dim]));
    dims.append(runs[dim]);
  }
  return broadcastAlong(emit, expandDims(emit, broadcast.getInput(), sizes), wide, dims);
}

/// `broadcast` to `shape`, which differs from its own in dimensions of size 1.
static Value reshapeBroadcast(Emitter &emit, graph::BroadcastOp broadcast,
                              ArrayRef<int64_t> shape) {
  auto from = graph::shapeOf(broadcast.getResult());
  Shape position(from.size(), -1); // of larger dimensions in `shape`
  for (size_t i = 0, j = 0; i < from.size(); ++i) {
    if (from[i] == 1)
      continue;
    while (shape[j] == 1)
      ++j;
    position[i] = j++;
  }
  Shape kept, dims;
  for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
    if (position[dim] >= 0) {
      kept.push_back(from[dim]);
      dims.push_back(position[dim]);
    }
  return broadcastAlong(emit, reshape(emit, broadcast.getInput(), kept), shape, dims);
}

namespace {

/// add(collapse(x), y) becomes collapse(add(x, expand(y))).
struct SinkThroughElementwise : RewritePattern {
  SinkThroughElementwise(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!actsElementwise(op) || op->getNumResults() != 1)
      return failure();
    for (Value operand : op->getOperands()) {
      auto reshape = operand.getDefiningOp<graph::ReshapeOp>();
      if (!reshape)
        continue;
      auto wide = graph::shapeOf(reshape.getInput()), merged = graph::shapeOf(operand);
      const auto runs = collapseRuns(wide, merged);
      const bool units = differsInUnits(wide, merged);
      if (!runs && !units)
        continue;
      if (units && !othersFollow(op, wide))
        continue;
      Emitter emit(op->getLoc(), rewriter);
      SmallVector<Value> operands;
      for (Value other : op->getOperands())
        operands.push_back(widen(emit, other, wide, runs));
      Operation *wider = rebuild(rewriter, op, operands, wide);
      rewriter.replaceOp(op, raise::reshape(emit, wider->getResult(0), merged));
      return success();
    }
    return failure();
  }

  /// Whether no operand needs a reshape of its own.
  static bool othersFollow(Operation *op, ArrayRef<int64_t> wide) {
    return llvm::all_of(op->getOperands(), [&](Value other) {
      auto reshape = other.getDefiningOp<graph::ReshapeOp>();
      return (reshape && graph::shapeOf(reshape.getInput()) == wide) || splatValue(other) ||
             other.getDefiningOp<graph::BroadcastOp>();
    });
  }

  static Value widen(Emitter &emit, Value value, ArrayRef<int64_t> wide,
                     const std::optional<Runs> &runs) {
    auto reshape = value.getDefiningOp<graph::ReshapeOp>();
    if (reshape && graph::shapeOf(reshape.getInput()) == wide)
      return reshape.getInput();
    if (Value splat = reshapeSplat(emit, value, wide))
      return splat;
    auto broadcast = value.getDefiningOp<graph::BroadcastOp>();
    if (broadcast && runs)
      return widenBroadcast(emit, broadcast, wide, *runs);
    if (broadcast)
      return reshapeBroadcast(emit, broadcast, wide);
    return raise::reshape(emit, value, wide);
  }
};

/// op(broadcast(x), broadcast(y)) along the same dimensions becomes
/// broadcast(op(x, y)): what is repeated is computed once.
struct SinkBroadcastThroughElementwise : RewritePattern {
  SinkBroadcastThroughElementwise(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!actsElementwise(op) || op->getNumResults() != 1)
      return failure();
    graph::BroadcastOp first;
    for (Value operand : op->getOperands()) {
      auto broadcast = operand.getDefiningOp<graph::BroadcastOp>();
      if (!broadcast && !splatValue(operand))
        return failure();
      if (broadcast && first && broadcast.getDims() != first.getDims())
        return failure();
      if (!first)
        first = broadcast;
    }
    if (!first)
      return failure();
    Emitter emit(op->getLoc(), rewriter);
    const Shape shape(graph::shapeOf(first.getInput()));
    const Shape full(graph::shapeOf(op->getResult(0))), dims(first.getDims());
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      auto broadcast = operand.getDefiningOp<graph::BroadcastOp>();
      operands.push_back(broadcast ? broadcast.getInput() : reshapeSplat(emit, operand, shape));
    }
    Operation *once = rebuild(rewriter, op, operands, shape);
    rewriter.replaceOp(op, broadcastAlong(emit, once->getResult(0), full, dims));
    return success();
  }
};

/// A reshape of a broadcast that adds or removes dimensions of size 1 only.
struct ReshapeOfBroadcast : OpRewritePattern<graph::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ReshapeOp op, PatternRewriter &rewriter) const override {
    auto broadcast = op.getInput().getDefiningOp<graph::BroadcastOp>();
    if (!broadcast || !differsInUnits(graph::shapeOf(op.getInput()), graph::shapeOf(op)))
      return failure();
    Emitter emit(broadcast.getLoc(), rewriter);
    rewriter.replaceOp(op, reshapeBroadcast(emit, broadcast, graph::shapeOf(op)));
    return success();
  }
};

/// The collapse that defines `value`, if it is one.
struct Collapse {
  Value source;
  Runs runs;
  ArrayRef<int64_t> wide() const { return graph::shapeOf(source); }

  static std::optional<Collapse> of(Value value) {
    auto reshape = value.getDefiningOp<graph::ReshapeOp>();
    if (!reshape)
      return std::nullopt;
    auto runs = collapseRuns(graph::shapeOf(reshape.getInput()), graph::shapeOf(value));
    if (!runs)
      return std::nullopt;
    return Collapse{reshape.getInput(), *runs};
  }
};

/// A collapse that merges leading dimensions, larger ones than 1, and nothing else: tokens of all
/// samples. Without dimensions of size 1 among them.
struct MergedRows {
  Value source;
  Shape leading, rest; ///< [8,32,64] -> [256,64]: [8,32] and [64]

  static std::optional<MergedRows> of(Value value) {
    auto collapse = Collapse::of(value);
    if (!collapse || llvm::any_of(llvm::drop_begin(collapse->runs),
                                  [](const Shape &run) { return run.size() != 1; }))
      return std::nullopt;
    Shape leading = runSizes(collapse->wide(), collapse->runs[0]);
    llvm::erase(leading, 1);
    if (leading.size() < 2)
      return std::nullopt;
    return MergedRows{collapse->source, leading, Shape(graph::shapeOf(value).drop_front())};
  }
  Shape with(ArrayRef<int64_t> more) const {
    Shape shape(leading);
    llvm::append_range(shape, more);
    return shape;
  }
  Value wide(Emitter &emit) const { return reshape(emit, source, with(rest)); }
};

/// Normalizations over the last dimension and softmax: the others may be split.
template <typename NormOp>
struct SinkThroughNorm : OpRewritePattern<NormOp> {
  using OpRewritePattern<NormOp>::OpRewritePattern;
  LogicalResult matchAndRewrite(NormOp op, PatternRewriter &rewriter) const override {
    auto collapse = Collapse::of(op.getInput());
    if (!collapse || collapse->runs.back().size() != 1)
      return failure();
    const Shape wide(collapse->wide()), stats(ArrayRef(wide).drop_back());
    Operation *copy = rewriter.clone(*op);
    rewriter.modifyOpInPlace(copy, [&] {
      copy->setOperand(0, collapse->source);
      copy->getResult(0).setType(tensorType(copy->getResult(0)).clone(wide));
      for (OpResult result : llvm::drop_begin(copy->getResults()))
        result.setType(tensorType(result).clone(stats));
    });
    Emitter emit(op.getLoc(), rewriter);
    SmallVector<Value> results;
    for (auto [old, fresh] : llvm::zip(op->getResults(), copy->getResults()))
      results.push_back(reshape(emit, fresh, graph::shapeOf(old)));
    rewriter.replaceOp(op, results);
    return success();
  }
};

struct SinkThroughSoftmax : OpRewritePattern<graph::SoftmaxOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::SoftmaxOp op, PatternRewriter &rewriter) const override {
    auto above = op.getInput().getDefiningOp<graph::ReshapeOp>();
    const auto dim = above ? dimAbove(above, op.getDim()) : std::nullopt;
    if (!dim)
      return failure();
    Emitter emit(op.getLoc(), rewriter);
    Value wide = graph::SoftmaxOp::create(emit, above.getInput().getType(), above.getInput(),
                                          *dim);
    rewriter.replaceOp(op, reshape(emit, wide, graph::shapeOf(op)));
    return success();
  }

  /// The dimension of the reshape's input that alone becomes `dim`.
  static std::optional<int64_t> dimAbove(graph::ReshapeOp reshape, int64_t dim) {
    auto from = graph::shapeOf(reshape.getInput()), to = graph::shapeOf(reshape.getResult());
    if (const auto runs = collapseRuns(from, to))
      return (*runs)[dim].size() == 1 ? std::optional((*runs)[dim][0]) : std::nullopt;
    return dimThroughUnits(from, to, dim);
  }
};

/// Rows that are repeated, as often as each token chooses experts.
struct SinkThroughBroadcast : OpRewritePattern<graph::BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::BroadcastOp op, PatternRewriter &rewriter) const override {
    auto rows = MergedRows::of(op.getInput());
    if (!rows || op.getDims().front() != 0)
      return failure();
    const size_t more = rows->leading.size() - 1;
    Shape dims;
    for (size_t i = 0; i < more; ++i)
      dims.push_back(i);
    for (int64_t dim : op.getDims())
      dims.push_back(dim + more);
    Emitter emit(op.getLoc(), rewriter);
    Value repeated = broadcastAlong(emit, rows->wide(emit),
                                    rows->with(graph::shapeOf(op).drop_front()), dims);
    rewriter.replaceOp(op, reshape(emit, repeated, graph::shapeOf(op)));
    return success();
  }
};

/// Rows whose largest elements are found.
struct SinkThroughTopK : OpRewritePattern<graph::TopKOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::TopKOp op, PatternRewriter &rewriter) const override {
    auto rows = MergedRows::of(op.getInput());
    if (!rows || rows->rest.empty())
      return failure();
    Emitter emit(op.getLoc(), rewriter);
    auto type = op.getType().clone(rows->with(graph::shapeOf(op).drop_front()));
    Value found = graph::TopKOp::create(emit, type, rows->wide(emit), op.getSmallest());
    rewriter.replaceOp(op, reshape(emit, found, graph::shapeOf(op)));
    return success();
  }
};

/// Rows of which an element is picked.
struct SinkThroughPick : OpRewritePattern<graph::PickOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::PickOp op, PatternRewriter &rewriter) const override {
    auto rows = MergedRows::of(op.getInput());
    if (!rows || rows->rest.empty())
      return failure();
    Emitter emit(op.getLoc(), rewriter);
    const Shape shape = rows->with(graph::shapeOf(op).drop_front());
    Value picked = graph::PickOp::create(emit, op.getType().clone(shape), rows->wide(emit),
                                         reshape(emit, op.getIndices(), shape));
    rewriter.replaceOp(op, reshape(emit, picked, graph::shapeOf(op)));
    return success();
  }
};

/// gather(table, collapse(indices)) becomes collapse(gather(table, indices)).
struct SinkThroughGather : OpRewritePattern<graph::GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::GatherOp op, PatternRewriter &rewriter) const override {
    auto reshape = op.getIndices().getDefiningOp<graph::ReshapeOp>();
    if (!reshape)
      return failure();
    Emitter emit(op.getLoc(), rewriter);
    Value wide =
        gather(emit, op.getTable(), reshape.getInput(), op.getAxis(), op.getPaddingRowAttr());
    rewriter.replaceOp(op, raise::reshape(emit, wide, graph::shapeOf(op)));
    return success();
  }
};

/// A slice that leaves merged dimensions whole.
struct SinkThroughSlice : OpRewritePattern<graph::SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::SliceOp op, PatternRewriter &rewriter) const override {
    auto collapse = Collapse::of(op.getInput());
    if (!collapse)
      return failure();
    auto merged = graph::shapeOf(op.getInput()), result = graph::shapeOf(op);
    Shape shape(collapse->wide()), offsets(shape.size(), 0), strides(shape.size(), 1);
    for (auto [i, run] : llvm::enumerate(collapse->runs)) {
      if (result[i] == merged[i])
        continue;
      if (run.size() != 1)
        return failure();
      shape[run[0]] = result[i];
      offsets[run[0]] = op.getOffsets()[i];
      strides[run[0]] = op.getStrides()[i];
    }
    Emitter emit(op.getLoc(), rewriter);
    Value wide = graph::SliceOp::create(emit, op.getType().clone(shape), collapse->source,
                                        offsets, strides);
    rewriter.replaceOp(op, reshape(emit, wide, result));
    return success();
  }
};

/// A slice below a reshape that only adds and removes dimensions of size 1.
struct SinkUnitsThroughSlice : OpRewritePattern<graph::SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::SliceOp op, PatternRewriter &rewriter) const override {
    auto reshape = op.getInput().getDefiningOp<graph::ReshapeOp>();
    auto sliced = graph::shapeOf(op.getInput());
    if (!reshape || !differsInUnits(graph::shapeOf(reshape.getInput()), sliced))
      return failure();
    Shape shape(graph::shapeOf(reshape.getInput())), offsets(shape.size(), 0),
        strides(shape.size(), 1);
    for (size_t i = 0, j = 0; i < sliced.size(); ++i) {
      if (sliced[i] == 1)
        continue;
      while (shape[j] == 1)
        ++j;
      shape[j] = graph::shapeOf(op)[i];
      offsets[j] = op.getOffsets()[i];
      strides[j++] = op.getStrides()[i];
    }
    Emitter emit(op.getLoc(), rewriter);
    Value slice = graph::SliceOp::create(emit, op.getType().clone(shape), reshape.getInput(),
                                         offsets, strides);
    rewriter.replaceOp(op, raise::reshape(emit, slice, graph::shapeOf(op)));
    return success();
  }
};

/// A reduction of merged dimensions reduces those they consist of. The reshape may also add
/// dimensions of size 1, which there is nothing to reduce of.
struct SinkThroughReduce : OpRewritePattern<graph::ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ReduceOp op, PatternRewriter &rewriter) const override {
    auto collapse = op.getInput().getDefiningOp<graph::ReshapeOp>();
    if (!collapse)
      return failure();
    auto wide = graph::shapeOf(collapse.getInput()), merged = graph::shapeOf(op.getInput());
    auto runs = collapseRuns(wide, merged);
    const bool addsUnits = !runs;
    if (addsUnits)
      runs = collapseRuns(wide, withoutUnits(merged));
    if (!runs)
      return failure();
    Shape dims;
    for (int64_t dim : op.getDims())
      if (!addsUnits)
        dims.append((*runs)[dim]);
      else if (merged[dim] != 1)
        dims.append((*runs)[withoutUnits(merged.take_front(dim)).size()]);
    if (dims.empty())
      return failure();
    Emitter emit(op.getLoc(), rewriter);
    Value sum = reduce(emit, op.getKind(), collapse.getInput(), dims);
    rewriter.replaceOp(op, reshape(emit, sum, graph::shapeOf(op)));
    return success();
  }

  static Shape withoutUnits(ArrayRef<int64_t> shape) {
    Shape result(shape);
    llvm::erase(result, 1);
    return result;
  }
};
} // namespace

void addSinkReshapePatterns(RewritePatternSet &patterns) {
  patterns.add<SinkThroughElementwise, SinkBroadcastThroughElementwise, ReshapeOfBroadcast,
               SinkThroughNorm<graph::LayerNormOp>, SinkThroughNorm<graph::RmsNormOp>,
               SinkThroughSoftmax, SinkThroughBroadcast, SinkThroughTopK, SinkThroughPick,
               SinkThroughGather, SinkThroughSlice, SinkUnitsThroughSlice, SinkThroughReduce>(
      patterns.getContext());
}

} // namespace dtc::raise
