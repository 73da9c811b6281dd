#include "dtc/Raise/Passes.h"

#include "mlir/Transforms/Passes.h"

namespace dtc::raise {

void buildRaisePipeline(mlir::OpPassManager &passes, int64_t batch) {
  if (batch != 0)
    passes.addPass(createRebatchPass(batch));
  passes.addPass(mlir::createCanonicalizerPass());
  passes.addPass(mlir::createCSEPass());
  passes.addPass(createUnflattenPass());
  passes.addPass(mlir::createCSEPass());
  passes.addPass(createRaisePass());
  passes.addPass(createUnflattenPass());
  passes.addPass(mlir::createCSEPass());
  passes.addPass(createViewParametersPass());
}

void registerRaisePasses() {
  mlir::registerPass(createUnflattenPass);
  mlir::registerPass(createRaisePass);
  mlir::registerPass(createViewParametersPass);
  mlir::registerPass([] { return createRebatchPass(0); });
}

} // namespace dtc::raise
