#include "Functions.h"

using namespace mlir;

namespace dtc::planbridge {

SmallVector<Operation *> plannedOps(func::FuncOp func) {
  return llvm::map_to_vector(func.front().without_terminator(),
                             [](Operation &op) { return &op; });
}

} // namespace dtc::planbridge
