// Reshapes that split dimensions move up, towards parameters.
#include "Reshapes.h"

using namespace mlir;

namespace dtc::raise {

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

struct HoistThroughBroadcast : HoistThrough<graph::BroadcastOp> {
  using HoistThrough::HoistThrough;
  Value widen(Emitter &emit, graph::BroadcastOp op, const Split &split) const override {
    const Shape first = split.starts();
    SmallVector<Shape> sizes;
    Shape dims;
    for (int64_t dim : op.getDims()) {
      sizes.push_back(split.sizes[dim]);
      for (size_t i = 0; i < split.sizes[dim].size(); ++i)
        dims.push_back(first[dim] + i);
    }
    return broadcastAlong(emit, expandDims(emit, op.getInput(), sizes), split.wide(), dims);
  }
};

/// A split of dimensions that a slice leaves whole.
struct HoistThroughSlice : HoistThrough<graph::SliceOp> {
  using HoistThrough::HoistThrough;
  Value widen(Emitter &emit, graph::SliceOp op, const Split &split) const override {
    auto input = graph::shapeOf(op.getInput()), output = graph::shapeOf(op.getResult());
    Shape offsets, strides;
    SmallVector<Shape> inputSizes = split.sizes;
    for (size_t i = 0; i < input.size(); ++i) {
      const bool whole = input[i] == output[i];
      if (!whole && split.sizes[i].size() != 1)
        return {};
      if (!whole)
        inputSizes[i] = {input[i]};
      offsets.append(split.sizes[i].size(), whole ? 0 : op.getOffsets()[i]);
      strides.append(split.sizes[i].size(), whole ? 1 : op.getStrides()[i]);
    }
    Value wide = expandDims(emit, op.getInput(), inputSizes);
    auto type = op.getType().clone(split.wide());
    return graph::SliceOp::create(emit, type, wide, offsets, strides);
  }
};

/// expand(transpose(x)) becomes transpose(expand(x)).
struct HoistThroughTranspose : HoistThrough<graph::TransposeOp> {
  using HoistThrough::HoistThrough;
  Value widen(Emitter &emit, graph::TransposeOp op, const Split &split) const override {
    const auto perm = op.getPerm();
    SmallVector<Shape> before(perm.size());
    for (size_t i = 0; i < perm.size(); ++i)
      before[perm[i]] = split.sizes[i];
    const Shape first = Split{before}.starts();
    Shape widePerm;
    for (int64_t dim : perm)
      for (size_t i = 0; i < before[dim].size(); ++i)
        widePerm.push_back(first[dim] + i);
    return transpose(emit, expandDims(emit, op.getInput(), before), widePerm);
  }
};

/// A split of dimensions other than the one that is joined.
struct HoistThroughConcat : HoistThrough<graph::ConcatOp> {
  using HoistThrough::HoistThrough;
  Value widen(Emitter &emit, graph::ConcatOp op, const Split &split) const override {
    const int64_t dim = op.getDim();
    if (split.sizes[dim].size() != 1)
      return {};
    SmallVector<Value> parts;
    for (Value part : op.getInputs()) {
      SmallVector<Shape> own = split.sizes;
      own[dim] = {graph::shapeOf(part)[dim]};
      parts.push_back(expandDims(emit, part, own));
    }
    auto type = op.getType().clone(split.wide());
    return graph::ConcatOp::create(emit, type, parts, split.starts()[dim]);
  }
};
} // namespace

void addHoistReshapePatterns(RewritePatternSet &patterns) {
  patterns.add<HoistThroughElementwise, HoistThroughBroadcast, HoistThroughSlice,
               HoistThroughTranspose, HoistThroughConcat>(patterns.getContext());
}

} // namespace dtc::raise
