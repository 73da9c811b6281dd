#include "dtc/Raise/Passes.h"

#include "mlir/Transforms/Passes.h"

namespace dtc::raise {

void buildRaisePipeline(mlir::OpPassManager &passes, const RebatchOptions &rebatch) {
  passes.addPass(createWidenHalves());
  if (rebatch.batch != 0)
    passes.addPass(createRebatch(rebatch));
  passes.addPass(createKeyDropout()); // before equal ones become one
  passes.addPass(mlir::createCanonicalizerPass());
  passes.addPass(mlir::createCSEPass());
  passes.addPass(createUnflatten());
  passes.addPass(mlir::createCSEPass());
  passes.addPass(createRaiseLayers());
  passes.addPass(createUnflatten());
  passes.addPass(mlir::createCSEPass());
  passes.addPass(createViewParameters());
}

} // namespace dtc::raise
