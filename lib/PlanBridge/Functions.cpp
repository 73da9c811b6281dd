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

unsigned AlikeOps::getHashValue(Operation *op) {
  auto types = [](TypeRange range) { return llvm::hash_combine_range(range.begin(), range.end()); };
  auto hash = llvm::hash_combine(op->getName().getAsOpaquePointer(), types(op->getOperandTypes()),
                                 types(op->getResultTypes()));
  return op->getNumOperands() ? hash : llvm::hash_combine(hash, op->hashProperties());
}

bool AlikeOps::isEqual(Operation *a, Operation *b) {
  auto isKey = [](Operation *op) { return op != getEmptyKey() && op != getTombstoneKey(); };
  if (a == b || !isKey(a) || !isKey(b))
    return a == b;
  return a->getName() == b->getName() &&
         llvm::equal(a->getOperandTypes(), b->getOperandTypes()) &&
         llvm::equal(a->getResultTypes(), b->getResultTypes()) &&
         a->getName().compareOpProperties(a->getPropertiesStorage(), b->getPropertiesStorage());
}

} // namespace dtc::planbridge
