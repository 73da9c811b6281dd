// A value that is only ever read in equal parts gets a dimension of parts.
//
// The fused projection of GPT-2 gives [b,s,(3 h e)], whose thirds are queries,
// keys and values. Seen as [b,s,3,(h e)] the split moves into the weight, and
// each third can be split by heads.
#include "Reshapes.h"

using namespace mlir;

namespace dtc::raise {

namespace {
struct SplitIntoChunks : OpRewritePattern<graph::SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(graph::SliceOp op, PatternRewriter &rewriter) const override {
    Value whole = op.getInput();
    const auto dim = slicedDim(op);
    // Parameters are left alone: a view of one would be for this use only.
    if (!dim || !whole.getDefiningOp())
      return failure();
    const int64_t size = graph::shapeOf(whole)[*dim], part = graph::shapeOf(op)[*dim];
    if (part < 2 || size % part != 0)
      return failure();
    SmallVector<graph::SliceOp> slices;
    SmallVector<bool> seen(size / part, false);
    for (Operation *user : whole.getUsers()) {
      auto slice = dyn_cast<graph::SliceOp>(user);
      if (!slice || slicedDim(slice) != dim || graph::shapeOf(slice)[*dim] != part ||
          slice.getOffsets()[*dim] % part != 0)
        return failure();
      seen[slice.getOffsets()[*dim] / part] = true;
      slices.push_back(slice);
    }
    if (llvm::is_contained(seen, false))
      return failure();
    Shape shape(graph::shapeOf(whole));
    shape[*dim] = part;
    shape.insert(shape.begin() + *dim, size / part);
    rewriter.setInsertionPointAfterValue(whole);
    Emitter emit(op.getLoc(), rewriter);
    Value parts = reshape(emit, whole, shape);
    for (graph::SliceOp slice : slices) {
      emit.setInsertionPoint(slice);
      Value one = sliceDim(emit, parts, *dim, slice.getOffsets()[*dim] / part, 1);
      rewriter.replaceOp(slice, reshape(emit, one, graph::shapeOf(slice)));
    }
    return success();
  }

  /// The only dimension that is not taken whole, if its elements are adjacent.
  static std::optional<int64_t> slicedDim(graph::SliceOp op) {
    auto from = graph::shapeOf(op.getInput()), to = graph::shapeOf(op.getResult());
    std::optional<int64_t> dim;
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] == to[i])
        continue;
      if (dim || op.getStrides()[i] != 1)
        return std::nullopt;
      dim = i;
    }
    return dim;
  }
};
} // namespace

void addChunkPatterns(RewritePatternSet &patterns) {
  patterns.add<SplitIntoChunks>(patterns.getContext());
}

} // namespace dtc::raise
