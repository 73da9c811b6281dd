#include "Layers.h"
#include "dtc/Raise/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace dtc::raise {

namespace {
struct RaisePass : PassWrapper<RaisePass, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RaisePass)
  StringRef getArgument() const final { return "dtc-raise"; }
  StringRef getDescription() const final {
    return "recognize attention, normalizations, activations and mixtures of experts";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<graph::GraphDialect>();
  }

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    addAttentionPatterns(patterns);
    addNormPatterns(patterns);
    addActivationPatterns(patterns);
    addExpertPatterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace

std::unique_ptr<Pass> createRaisePass() { return std::make_unique<RaisePass>(); }

} // namespace dtc::raise
