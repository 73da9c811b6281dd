#include "dtc/Dialect/Graph/MergeDuplicates.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <unordered_map>

using namespace mlir;

namespace dtc::graph {

void mergeDuplicates(func::FuncOp func) {
  // One hash an op: MLIR's own elimination computes each anew whenever its table grows, which
  // takes most of its time in a function of a whole deep model.
  std::unordered_map<size_t, SmallVector<Operation *, 1>> known;
  auto find = [&](Operation *op) -> Operation * {
    size_t hash = OperationEquivalence::computeHash(op, OperationEquivalence::directHashValue,
                                                    OperationEquivalence::ignoreHashValue,
                                                    OperationEquivalence::IgnoreLocations);
    SmallVector<Operation *, 1> &alike = known[hash];
    for (Operation *other : alike)
      if (OperationEquivalence::isEquivalentTo(op, other, OperationEquivalence::IgnoreLocations))
        return other;
    alike.push_back(op);
    return nullptr;
  };
  for (Operation &op : llvm::make_early_inc_range(func.getBody().front().without_terminator())) {
    if (isOpTriviallyDead(&op)) {
      op.erase();
      continue;
    }
    if (op.getNumRegions() != 0 || !isMemoryEffectFree(&op))
      continue;
    if (Operation *other = find(&op)) {
      op.replaceAllUsesWith(other);
      op.erase();
    }
  }
}

} // namespace dtc::graph
