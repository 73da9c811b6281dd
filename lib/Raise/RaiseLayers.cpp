#include "Layers.h"
#include "dtc/Raise/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace dtc::raise {

#define GEN_PASS_DEF_RAISELAYERS
#include "dtc/Raise/Passes.h.inc"

namespace {
struct RaiseLayers : impl::RaiseLayersBase<RaiseLayers> {
  using RaiseLayersBase::RaiseLayersBase;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    addAttentionPatterns(patterns);
    addNormPatterns(patterns);
    addActivationPatterns(patterns);
    addExpertPatterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
    getOperation()->walk([](func::FuncOp func) { func->removeAttr(kRoundedTo); });
  }
};
} // namespace

} // namespace dtc::raise
