#include "Functions.h"

using namespace mlir;

namespace dtc::planbridge {

func::FuncOp planned(ModuleOp module) {
  if (auto func = module.lookupSymbol<func::FuncOp>("loss_and_grads"))
    return func;
  return module.lookupSymbol<func::FuncOp>("forward");
}

SmallVector<Operation *> plannedOps(func::FuncOp func) {
  return llvm::map_to_vector(func.front().without_terminator(),
                             [](Operation &op) { return &op; });
}

} // namespace dtc::planbridge
