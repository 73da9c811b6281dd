#include "dtc/Dialect/Graph/MergeDuplicates.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace dtc::graph {

namespace {
/// Ops are equal if they compute the same. The hash leaves out most attributes, which seldom
/// tell ops with the same operands apart.
struct SameComputation : llvm::DenseMapInfo<Operation *> {
  static unsigned getHashValue(Operation *op) {
    auto hash = llvm::hash_combine(op->getName().getAsOpaquePointer(),
                                   llvm::hash_combine_range(op->operand_begin(), op->operand_end()),
                                   llvm::hash_combine_range(op->result_type_begin(),
                                                            op->result_type_end()));
    return op->getNumOperands() ? hash : llvm::hash_combine(hash, op->hashProperties());
  }
  static bool isEqual(Operation *a, Operation *b) {
    if (a == b)
      return true;
    if (a == getEmptyKey() || a == getTombstoneKey() || b == getEmptyKey() ||
        b == getTombstoneKey())
      return false;
    return OperationEquivalence::isEquivalentTo(a, b, OperationEquivalence::IgnoreLocations);
  }
};
} // namespace

void mergeDuplicates(func::FuncOp func, function_ref<void(Operation *)> onErase) {
  Block &block = func.getBody().front();
  auto erase = [&](Operation &op) {
    if (onErase)
      onErase(&op);
    op.erase();
  };
  // With room for all: MLIR's own elimination computes each hash anew whenever its table grows,
  // which takes most of its time in a function of a whole deep model.
  DenseSet<Operation *, SameComputation> known;
  known.reserve(block.getOperations().size());
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    if (isOpTriviallyDead(&op)) {
      erase(op);
      continue;
    }
    if (op.getNumRegions() != 0)
      continue;
    auto [other, isNew] = known.insert(&op);
    if (isNew || !isMemoryEffectFree(&op))
      continue;
    op.replaceAllUsesWith(*other);
    erase(op);
  }
}

} // namespace dtc::graph
