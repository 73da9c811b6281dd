#include "dtc/Import/ONNX/Passes.h"

#include "mlir/Transforms/Passes.h"

namespace dtc::import {

void buildImportPipeline(mlir::OpPassManager &passes, int64_t batch) {
  passes.addPass(mlir::createCanonicalizerPass());
  passes.addPass(mlir::createCSEPass());
}

void registerImportPasses() {}

} // namespace dtc::import
