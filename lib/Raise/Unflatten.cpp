#include "Reshapes.h"
#include "dtc/Raise/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace dtc::raise {

#define GEN_PASS_DEF_UNFLATTEN
#include "dtc/Raise/Passes.h.inc"

namespace {
struct Unflatten : impl::UnflattenBase<Unflatten> {
  using UnflattenBase::UnflattenBase;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    addSinkReshapePatterns(patterns);
    addHoistReshapePatterns(patterns);
    addContractReshapePatterns(patterns);
    addTransposePatterns(patterns);
    addChunkPatterns(patterns);
    GreedyRewriteConfig config;
    config.enableFolding();
    // Moving ops past each other takes as many rounds as the graph is deep. What is left when they
    // are used up is as correct as what was there before.
    config.setMaxIterations(64);
    (void)applyPatternsGreedily(getOperation(), std::move(patterns), config);
  }
};
} // namespace

} // namespace dtc::raise
