#include "Reshapes.h"
#include "dtc/Raise/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace dtc::raise {

namespace {
struct UnflattenPass : PassWrapper<UnflattenPass, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(UnflattenPass)
  StringRef getArgument() const final { return "dtc-unflatten"; }
  StringRef getDescription() const final {
    return "move reshapes and transposes into contractions and weights";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<graph::GraphDialect>();
  }

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    addSinkReshapePatterns(patterns);
    addHoistReshapePatterns(patterns);
    addContractReshapePatterns(patterns);
    addTransposePatterns(patterns);
    addChunkPatterns(patterns);
    GreedyRewriteConfig config;
    config.enableFolding();
    // Moving ops past each other takes as many rounds as the graph is deep; what
    // is left when they are used up is as correct as what was there before.
    config.setMaxIterations(64);
    (void)applyPatternsGreedily(getOperation(), std::move(patterns), config);
  }
};
} // namespace

std::unique_ptr<Pass> createUnflattenPass() { return std::make_unique<UnflattenPass>(); }

} // namespace dtc::raise
