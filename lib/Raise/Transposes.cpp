// Transposes move down until an index list of a contraction takes them in.
#include "Reshapes.h"

using namespace mlir;

namespace dtc::raise {

static Shape inverse(ArrayRef<int64_t> perm) {
  Shape result(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    result[perm[i]] = i;
  return result;
}

/// The sizes that `shape` has before it is permuted.
static Shape unpermuted(ArrayRef<int64_t> shape, ArrayRef<int64_t> perm) {
  Shape result(shape.size());
  for (size_t i = 0; i < perm.size(); ++i)
    result[perm[i]] = shape[i];
  return result;
}

namespace {

/// contract(transpose(x), y) reads x by permuted indices.
struct FoldIntoOperand : OpRewritePattern<graph::ContractOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ContractOp op, PatternRewriter &rewriter) const override {
    auto lhs = op.getLhs().getDefiningOp<graph::TransposeOp>();
    auto rhs = op.getRhs().getDefiningOp<graph::TransposeOp>();
    if (!lhs && !rhs)
      return failure();
    auto indices = [](graph::TransposeOp turn, ArrayRef<int64_t> own) {
      return turn ? unpermuted(own, turn.getPerm()) : Shape(own);
    };
    rewriter.replaceOpWithNewOp<graph::ContractOp>(
        op, op.getType(), lhs ? lhs.getInput() : op.getLhs(), rhs ? rhs.getInput() : op.getRhs(),
        indices(lhs, op.getLhsIndices()), indices(rhs, op.getRhsIndices()),
        op.getResultIndices());
    return success();
  }
};

/// transpose(contract) gives its result in another order.
struct FoldIntoResult : OpRewritePattern<graph::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::TransposeOp op, PatternRewriter &rewriter) const override {
    auto contract = op.getInput().getDefiningOp<graph::ContractOp>();
    if (!contract || !contract->hasOneUse())
      return failure();
    Shape indices;
    for (int64_t dim : op.getPerm())
      indices.push_back(contract.getResultIndices()[dim]);
    rewriter.setInsertionPoint(contract);
    auto turned = graph::ContractOp::create(
        rewriter, contract.getLoc(), op.getType(), contract.getLhs(), contract.getRhs(),
        contract.getLhsIndices(), contract.getRhsIndices(), indices);
    rewriter.replaceOp(op, turned);
    return success();
  }
};

/// op(transpose(x), transpose(y)) becomes transpose(op(x, y)).
struct SinkTransposeThroughElementwise : RewritePattern {
  SinkTransposeThroughElementwise(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!actsElementwise(op) || op->getNumResults() != 1)
      return failure();
    graph::TransposeOp first;
    for (Value operand : op->getOperands())
      if (auto turn = operand.getDefiningOp<graph::TransposeOp>(); turn && !first)
        first = turn;
    if (!first)
      return failure();
    const auto perm = first.getPerm();
    bool turnsRepeated = false, readsOwn = false;
    for (Value operand : op->getOperands()) {
      auto turn = operand.getDefiningOp<graph::TransposeOp>();
      auto broadcast = operand.getDefiningOp<graph::BroadcastOp>();
      if (!(turn && turn.getPerm() == perm) && !splatValue(operand) && !broadcast)
        return failure();
      turnsRepeated |= broadcast && !llvm::is_sorted(dimsBefore(broadcast, perm));
      readsOwn |= turn && !turn.getInput().getDefiningOp<graph::BroadcastOp>();
    }
    // What is repeated would be turned, sink as far as here, and turn the others back for ever.
    if (turnsRepeated && !readsOwn)
      return failure();
    Emitter emit(op->getLoc(), rewriter);
    const Shape shape(graph::shapeOf(first.getInput()));
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      if (auto turn = operand.getDefiningOp<graph::TransposeOp>())
        operands.push_back(turn.getInput());
      else if (Value splat = reshapeSplat(emit, operand, shape))
        operands.push_back(splat);
      else
        operands.push_back(
            turnBroadcast(emit, operand.getDefiningOp<graph::BroadcastOp>(), perm, shape));
    }
    Operation *turned = rebuild(rewriter, op, operands, shape);
    rewriter.replaceOp(op, transpose(emit, turned->getResult(0), perm));
    return success();
  }

  /// Where the dimensions of its input are before being permuted by `perm`.
  static Shape dimsBefore(graph::BroadcastOp broadcast, ArrayRef<int64_t> perm) {
    return llvm::map_to_vector(broadcast.getDims(), [&](int64_t dim) { return perm[dim]; });
  }

  /// The broadcast as it is before being permuted by `perm`.
  static Value turnBroadcast(Emitter &emit, graph::BroadcastOp broadcast, ArrayRef<int64_t> perm,
                             ArrayRef<int64_t> shape) {
    SmallVector<std::pair<int64_t, int64_t>> order; // new dimension, operand dimension
    for (auto [i, dim] : llvm::enumerate(dimsBefore(broadcast, perm)))
      order.push_back({dim, i});
    llvm::sort(order);
    Shape dims, operandPerm;
    for (auto [dim, from] : order) {
      dims.push_back(dim);
      operandPerm.push_back(from);
    }
    return broadcastAlong(emit, transpose(emit, broadcast.getInput(), operandPerm), shape, dims);
  }
};

struct SinkTransposeThroughSlice : OpRewritePattern<graph::SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::SliceOp op, PatternRewriter &rewriter) const override {
    auto turn = op.getInput().getDefiningOp<graph::TransposeOp>();
    if (!turn)
      return failure();
    const auto perm = turn.getPerm();
    Emitter emit(op.getLoc(), rewriter);
    auto type = op.getType().clone(unpermuted(graph::shapeOf(op), perm));
    Value slice = graph::SliceOp::create(emit, type, turn.getInput(),
                                         unpermuted(op.getOffsets(), perm),
                                         unpermuted(op.getStrides(), perm));
    rewriter.replaceOp(op, transpose(emit, slice, perm));
    return success();
  }
};

struct SinkTransposeThroughConcat : OpRewritePattern<graph::ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ConcatOp op, PatternRewriter &rewriter) const override {
    auto first = op.getInputs().front().getDefiningOp<graph::TransposeOp>();
    if (!first)
      return failure();
    const auto perm = first.getPerm();
    SmallVector<Value> parts;
    for (Value part : op.getInputs()) {
      auto turn = part.getDefiningOp<graph::TransposeOp>();
      if (!turn || turn.getPerm() != perm)
        return failure();
      parts.push_back(turn.getInput());
    }
    Emitter emit(op.getLoc(), rewriter);
    auto type = op.getType().clone(unpermuted(graph::shapeOf(op), perm));
    Value joined = graph::ConcatOp::create(emit, type, parts, perm[op.getDim()]);
    rewriter.replaceOp(op, transpose(emit, joined, perm));
    return success();
  }
};

struct SinkTransposeThroughSoftmax : OpRewritePattern<graph::SoftmaxOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::SoftmaxOp op, PatternRewriter &rewriter) const override {
    auto turn = op.getInput().getDefiningOp<graph::TransposeOp>();
    if (!turn)
      return failure();
    Emitter emit(op.getLoc(), rewriter);
    Value x = turn.getInput();
    Value softmax =
        graph::SoftmaxOp::create(emit, x.getType(), x, turn.getPerm()[op.getDim()]);
    rewriter.replaceOp(op, transpose(emit, softmax, turn.getPerm()));
    return success();
  }
};

/// broadcast(transpose(x)): every repeated dimension stays behind the one it follows.
struct SinkTransposeThroughBroadcast : OpRewritePattern<graph::BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::BroadcastOp op, PatternRewriter &rewriter) const override {
    auto turn = op.getInput().getDefiningOp<graph::TransposeOp>();
    if (!turn || turn.getPerm().empty())
      return failure();
    auto result = graph::shapeOf(op.getResult());
    const Shape place = inverse(turn.getPerm());
    Shape order; // result dimensions in the order of the new broadcast
    auto addFollowers = [&](int64_t from) {
      for (int64_t dim = from; dim < int64_t(result.size()) &&
                               !llvm::is_contained(op.getDims(), dim); ++dim)
        order.push_back(dim);
    };
    addFollowers(0);
    Shape dims;
    for (int64_t at : place) {
      const int64_t dim = op.getDims()[at];
      dims.push_back(order.size());
      order.push_back(dim);
      addFollowers(dim + 1);
    }
    Shape shape = llvm::map_to_vector(order, [&](int64_t dim) { return result[dim]; });
    Emitter emit(op.getLoc(), rewriter);
    Value wide = broadcastAlong(emit, turn.getInput(), shape, dims);
    rewriter.replaceOp(op, transpose(emit, wide, inverse(order)));
    return success();
  }
};

/// transpose(broadcast(x)) repeats x along other dimensions, where those of x keep their order.
struct TransposeOfBroadcast : OpRewritePattern<graph::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::TransposeOp op, PatternRewriter &rewriter) const override {
    auto broadcast = op.getInput().getDefiningOp<graph::BroadcastOp>();
    if (!broadcast)
      return failure();
    const Shape place = inverse(op.getPerm());
    Shape dims = llvm::map_to_vector(broadcast.getDims(), [&](int64_t dim) { return place[dim]; });
    if (!llvm::is_sorted(dims))
      return failure();
    rewriter.replaceOpWithNewOp<graph::BroadcastOp>(op, op.getType(), broadcast.getInput(), dims);
    return success();
  }
};

/// collapse(transpose(x)) becomes transpose(collapse(x)) where what is merged
/// lies side by side in x as well.
struct SinkTransposeThroughCollapse : OpRewritePattern<graph::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ReshapeOp op, PatternRewriter &rewriter) const override {
    auto turn = op.getInput().getDefiningOp<graph::TransposeOp>();
    if (!turn)
      return failure();
    auto runs = collapseRuns(graph::shapeOf(op.getInput()), graph::shapeOf(op.getResult()));
    if (!runs)
      return failure();
    SmallVector<std::pair<int64_t, int64_t>> order; // first source dimension, run
    for (auto [i, run] : llvm::enumerate(*runs)) {
      for (size_t k = 1; k < run.size(); ++k)
        if (turn.getPerm()[run[k]] != turn.getPerm()[run[k - 1]] + 1)
          return failure();
      order.push_back({turn.getPerm()[run[0]], i});
    }
    llvm::sort(order);
    Shape shape, perm(runs->size());
    for (auto [k, entry] : llvm::enumerate(order)) {
      shape.push_back(graph::shapeOf(op.getResult())[entry.second]);
      perm[entry.second] = k;
    }
    Emitter emit(op.getLoc(), rewriter);
    rewriter.replaceOp(op, transpose(emit, reshape(emit, turn.getInput(), shape), perm));
    return success();
  }
};

/// A reshape that only adds and removes dimensions of size 1 moves above a transpose.
struct SinkTransposeThroughUnits : OpRewritePattern<graph::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ReshapeOp op, PatternRewriter &rewriter) const override {
    auto turn = op.getInput().getDefiningOp<graph::TransposeOp>();
    auto turned = graph::shapeOf(op.getInput()), result = graph::shapeOf(op.getResult());
    if (!turn || !differsInUnits(turned, result))
      return failure();
    // A larger dimension is placed by where it comes from, a 1 stays behind its neighbour.
    SmallVector<std::pair<int64_t, int64_t>> order;
    int64_t place = -1;
    size_t next = 0;
    for (auto [i, size] : llvm::enumerate(result)) {
      if (size != 1) {
        while (turned[next] == 1)
          ++next;
        place = turn.getPerm()[next++];
      }
      order.push_back({place, i});
    }
    llvm::sort(order);
    Shape shape, dims;
    for (auto [from, dim] : order) {
      shape.push_back(result[dim]);
      dims.push_back(dim);
    }
    Emitter emit(op.getLoc(), rewriter);
    rewriter.replaceOp(op,
                       transpose(emit, reshape(emit, turn.getInput(), shape), inverse(dims)));
    return success();
  }
};

/// A transpose that moves dimensions of size 1 only is a reshape.
struct TransposeOfUnits : OpRewritePattern<graph::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::TransposeOp op, PatternRewriter &rewriter) const override {
    auto from = graph::shapeOf(op.getInput());
    int64_t last = -1;
    for (int64_t dim : op.getPerm()) {
      if (from[dim] == 1)
        continue;
      if (dim < last)
        return failure();
      last = dim;
    }
    rewriter.replaceOpWithNewOp<graph::ReshapeOp>(op, op.getType(), op.getInput());
    return success();
  }
};
} // namespace

void addTransposePatterns(RewritePatternSet &patterns) {
  patterns.add<FoldIntoOperand, FoldIntoResult, SinkTransposeThroughElementwise,
               SinkTransposeThroughSlice, SinkTransposeThroughConcat,
               SinkTransposeThroughSoftmax, SinkTransposeThroughBroadcast,
               TransposeOfBroadcast, SinkTransposeThroughCollapse, SinkTransposeThroughUnits,
               TransposeOfUnits>(patterns.getContext());
}

} // namespace dtc::raise
