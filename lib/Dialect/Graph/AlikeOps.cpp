#include "dtc/Dialect/Graph/AlikeOps.h"

using namespace mlir;

namespace dtc::graph {

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

} // namespace dtc::graph
