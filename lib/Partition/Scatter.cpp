// all_reduce + slice = reduce_scatter.
#include "Collectives.h"

using namespace mlir;
using namespace dtc::dist;

namespace dtc::partition {

namespace {
/// Every user must be a slice over the same axes, all of which were reduced
/// over; a sum over further axes follows on the part.
struct FuseScatter : OpRewritePattern<AllReduceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AllReduceOp op, PatternRewriter &rewriter) const override {
    if (op.getInputs().size() != 1 || op->use_empty())
      return failure();
    auto first = dyn_cast<SliceOp>(*op->user_begin());
    if (!first || first.getMeshAttr() != op.getMeshAttr())
      return failure();
    AxesAttr axes = first.getAxes();
    for (Operation *user : op->getUsers()) {
      auto slice = dyn_cast<SliceOp>(user);
      if (!slice || slice.getAxes() != axes || slice.getDim() != first.getDim())
        return failure();
    }
    SmallVector<StringAttr> rest(op.getAxes().getNames());
    for (StringAttr name : axes.getNames()) {
      if (!llvm::is_contained(rest, name))
        return failure();
      llvm::erase(rest, name);
    }
    rewriter.setInsertionPoint(op);
    Value part =
        ReduceScatterOp::create(rewriter, op.getLoc(), TypeRange{first.getType()}, op.getInputs(),
                                op.getMesh(), axes, op.getKind(), first.getDim())
            .getResult(0);
    if (!rest.empty())
      part = AllReduceOp::create(rewriter, op.getLoc(), TypeRange{part.getType()}, part,
                                 op.getMesh(), AxesAttr::get(getContext(), rest),
                                 op.getKind())
                 .getResult(0);
    for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
      rewriter.replaceOp(user, part);
    rewriter.eraseOp(op);
    return success();
  }
};
} // namespace

LogicalResult fuseScatters(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<FuseScatter>(module.getContext());
  GreedyRewriteConfig config;
  config.enableFolding(false).enableConstantCSE(false);
  SmallVector<Operation *> reductions;
  module.walk([&](AllReduceOp op) { reductions.push_back(op); });
  return applyOpPatternsGreedily(reductions, std::move(patterns), config);
}

} // namespace dtc::partition
