// Reshapes that merge dimensions (collapse) or split them (expand).
//
// A collapse [8,32,64] -> [256,64] has one run of source dimensions for each result dimension, here
// [0,1] and [2]. An expand is the same read backwards.
#pragma once

#include "dtc/Raise/Emit.h"

#include "mlir/IR/PatternMatch.h"

namespace dtc::raise {

/// For each dimension of the collapsed shape the dimensions it consists of.
using Runs = llvm::SmallVector<Shape>;

/// The runs of a reshape from `wide` to `merged`, or nothing when it is no
/// collapse. A reshape that changes nothing is not one.
std::optional<Runs> collapseRuns(llvm::ArrayRef<int64_t> wide, llvm::ArrayRef<int64_t> merged);

/// True when the shapes differ in dimensions of size 1 only.
bool differsInUnits(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);

/// The dimension of a reshape's input that becomes its dimension `dim`, larger than 1, where it
/// only adds and removes dimensions of size 1.
std::optional<int64_t> dimThroughUnits(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to,
                                       int64_t dim);

/// How a reshape splits dimensions: each source dimension into sizes[i].
/// Beside that it may add and remove dimensions of size 1: [8,1,64] ->
/// [8,4,16] has the sizes [8] [1] [4,16].
struct Split {
  llvm::SmallVector<Shape> sizes;
  Shape wide() const;   ///< all sizes in order
  Shape starts() const; ///< first dimension in wide() of each source dimension
};
/// Nothing when the reshape splits no dimension into larger ones, or merges some.
std::optional<Split> splitOf(graph::ReshapeOp op);

/// Replaces `expand`, a reshape of a result of another op, by `wide`, which is that result with its
/// dimensions split. Other uses of that result are replaced by `wide` under the old shape.
void replaceExpanded(mlir::PatternRewriter &rewriter, graph::ReshapeOp expand, mlir::Value wide);

/// expand(op(x)) becomes op(expand(x)): the part that is the same for all kinds of op.
template <typename Producer> struct HoistThrough : mlir::OpRewritePattern<graph::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;

  mlir::LogicalResult matchAndRewrite(graph::ReshapeOp op,
                                      mlir::PatternRewriter &rewriter) const final {
    auto producer = op.getInput().getDefiningOp<Producer>();
    const std::optional<Split> split = splitOf(op);
    if (!producer || !split)
      return mlir::failure();
    rewriter.setInsertionPoint(producer);
    Emitter emit(producer.getLoc(), rewriter);
    mlir::Value wide = widen(emit, producer, *split);
    if (!wide)
      return mlir::failure();
    replaceExpanded(rewriter, op, wide);
    return mlir::success();
  }

  /// The op with the dimensions of its result split; null, with nothing made, where it can't be.
  virtual mlir::Value widen(Emitter &emit, Producer op, const Split &split) const = 0;
};

/// Sizes of the dimensions in a run.
Shape runSizes(llvm::ArrayRef<int64_t> wide, llvm::ArrayRef<int64_t> run);

/// `value` with dimension i split into sizes[i].
mlir::Value expandDims(Emitter &emit, mlir::Value value, llvm::ArrayRef<Shape> sizes);

/// Arithmetic and activations: one element of each operand makes one of the result.
bool actsElementwise(mlir::Operation *op);

/// The same op on other operands, its results with the shape `shape`: in front of the op, or where
/// the rewriter stands.
mlir::Operation *rebuild(mlir::PatternRewriter &rewriter, mlir::Operation *op,
                         mlir::ValueRange operands, llvm::ArrayRef<int64_t> shape);
mlir::Operation *rebuildHere(mlir::PatternRewriter &rewriter, mlir::Operation *op,
                             mlir::ValueRange operands, llvm::ArrayRef<int64_t> shape);

/// The value of a constant that is equal everywhere, as a float.
std::optional<double> splatValue(mlir::Value value);
/// The same constant under another shape; null when it is no splat.
mlir::Value reshapeSplat(Emitter &emit, mlir::Value value, llvm::ArrayRef<int64_t> shape);

void addSinkReshapePatterns(mlir::RewritePatternSet &patterns);
void addHoistReshapePatterns(mlir::RewritePatternSet &patterns);
void addContractReshapePatterns(mlir::RewritePatternSet &patterns);
void addTransposePatterns(mlir::RewritePatternSet &patterns);
void addChunkPatterns(mlir::RewritePatternSet &patterns);

} // namespace dtc::raise
