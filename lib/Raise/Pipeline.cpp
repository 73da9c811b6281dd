#include "dtc/Raise/Passes.h"

#include "mlir/Transforms/Passes.h"

namespace dtc::raise {

void buildRaisePipeline(mlir::OpPassManager &passes, int64_t batch,
                        llvm::ArrayRef<std::string> whole) {
  passes.addPass(createWidenHalves());
  if (batch != 0)
    passes.addPass(createRebatch({batch, llvm::to_vector(whole)}));
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
