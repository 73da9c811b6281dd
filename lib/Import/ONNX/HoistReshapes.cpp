// Reshapes that split dimensions move up, towards parameters.
#include "Reshapes.h"

using namespace mlir;

namespace dtc::import {

namespace {

struct HoistThroughElementwise : OpRewritePattern<graph::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ReshapeOp op, PatternRewriter &rewriter) const override {
    Operation *producer = op.getInput().getDefiningOp();
    const auto split = splitOf(op);
    if (!producer || !actsElementwise(producer) || producer->getNumResults() != 1 ||
        !split)
      return failure();
    rewriter.setInsertionPoint(producer);
    Emitter emit(producer->getLoc(), rewriter);
    const Shape wide = split->wide();
    SmallVector<Value> operands;
    for (Value operand : producer->getOperands()) {
      Value splat = reshapeSplat(emit, operand, wide);
      operands.push_back(splat ? splat : reshape(emit, operand, wide));
    }
    replaceExpanded(rewriter, op, rebuild(rewriter, producer, operands, wide)->getResult(0));
    return success();
  }
};

struct HoistThroughBroadcast : OpRewritePattern<graph::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ReshapeOp op, PatternRewriter &rewriter) const override {
    auto broadcast = op.getInput().getDefiningOp<graph::BroadcastOp>();
    const auto split = splitOf(op);
    if (!broadcast || !split)
      return failure();
    const Shape first = split->starts();
    SmallVector<Shape> sizes;
    Shape dims;
    for (int64_t dim : broadcast.getDims()) {
      sizes.push_back(split->sizes[dim]);
      for (size_t i = 0; i < split->sizes[dim].size(); ++i)
        dims.push_back(first[dim] + i);
    }
    rewriter.setInsertionPoint(broadcast);
    Emitter emit(broadcast.getLoc(), rewriter);
    Value input = expandDims(emit, broadcast.getInput(), sizes);
    replaceExpanded(rewriter, op, broadcastAlong(emit, input, split->wide(), dims));
    return success();
  }
};

/// A split of dimensions that a slice leaves whole.
struct HoistThroughSlice : OpRewritePattern<graph::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ReshapeOp op, PatternRewriter &rewriter) const override {
    auto slice = op.getInput().getDefiningOp<graph::SliceOp>();
    const auto split = splitOf(op);
    if (!slice || !split)
      return failure();
    auto input = graph::shapeOf(slice.getInput()), output = graph::shapeOf(slice.getResult());
    Shape offsets, strides;
    SmallVector<Shape> inputSizes = split->sizes;
    for (size_t i = 0; i < input.size(); ++i) {
      const bool whole = input[i] == output[i];
      if (!whole && split->sizes[i].size() != 1)
        return failure();
      if (!whole)
        inputSizes[i] = {input[i]};
      offsets.append(split->sizes[i].size(), whole ? 0 : slice.getOffsets()[i]);
      strides.append(split->sizes[i].size(), whole ? 1 : slice.getStrides()[i]);
    }
    rewriter.setInsertionPoint(slice);
    Emitter emit(slice.getLoc(), rewriter);
    Value wide = expandDims(emit, slice.getInput(), inputSizes);
    auto type = slice.getType().clone(split->wide());
    replaceExpanded(rewriter, op,
                    graph::SliceOp::create(emit, type, wide, offsets, strides));
    return success();
  }
};

/// expand(transpose(x)) becomes transpose(expand(x)).
struct HoistThroughTranspose : OpRewritePattern<graph::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ReshapeOp op, PatternRewriter &rewriter) const override {
    auto turn = op.getInput().getDefiningOp<graph::TransposeOp>();
    const auto split = splitOf(op);
    if (!turn || !split)
      return failure();
    const auto perm = turn.getPerm();
    SmallVector<Shape> before(perm.size());
    for (size_t i = 0; i < perm.size(); ++i)
      before[perm[i]] = split->sizes[i];
    const Shape first = Split{before}.starts();
    Shape widePerm;
    for (int64_t dim : perm)
      for (size_t i = 0; i < before[dim].size(); ++i)
        widePerm.push_back(first[dim] + i);
    rewriter.setInsertionPoint(turn);
    Emitter emit(turn.getLoc(), rewriter);
    replaceExpanded(rewriter, op,
                    transpose(emit, expandDims(emit, turn.getInput(), before), widePerm));
    return success();
  }
};

/// A split of dimensions other than the one that is joined.
struct HoistThroughConcat : OpRewritePattern<graph::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(graph::ReshapeOp op, PatternRewriter &rewriter) const override {
    auto concat = op.getInput().getDefiningOp<graph::ConcatOp>();
    const auto split = splitOf(op);
    if (!concat || !split || split->sizes[concat.getDim()].size() != 1)
      return failure();
    rewriter.setInsertionPoint(concat);
    Emitter emit(concat.getLoc(), rewriter);
    SmallVector<Value> parts;
    for (Value part : concat.getInputs()) {
      SmallVector<Shape> own = split->sizes;
      own[concat.getDim()] = {graph::shapeOf(part)[concat.getDim()]};
      parts.push_back(expandDims(emit, part, own));
    }
    auto type = concat.getType().clone(split->wide());
    replaceExpanded(rewriter, op,
                    graph::ConcatOp::create(emit, type, parts, split->starts()[concat.getDim()]));
    return success();
  }
};
} // namespace

void addHoistReshapePatterns(RewritePatternSet &patterns) {
  patterns.add<HoistThroughElementwise, HoistThroughBroadcast, HoistThroughSlice,
               HoistThroughTranspose, HoistThroughConcat>(patterns.getContext());
}

} // namespace dtc::import
