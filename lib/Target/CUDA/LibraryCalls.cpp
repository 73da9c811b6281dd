#include "LibraryCalls.h"

#include "dtc/Target/LibraryRecords.h"

using namespace mlir;

namespace dtc::cuda {

/// What NVIDIA advises for the largest GPUs.
static constexpr uint64_t kProductWorkspace = uint64_t(32) << 20;

static bool hasProduct(Operation *op) {
  Type lhs = getElementTypeOrSelf(op->getOperand(0)), rhs = getElementTypeOrSelf(op->getOperand(1));
  Type result = getElementTypeOrSelf(op->getResult(0));
  bool isHalf = lhs.isBF16() || lhs.isF16();
  return lhs == rhs && (isHalf || lhs.isF32() || lhs.isF64()) &&
         (result == lhs || (isHalf && result.isF32()));
}

LogicalResult checkLibraryCalls(ModuleOp module) {
  SmallVector<std::pair<OperationName, SmallVector<Type>>> known;
  LogicalResult result = success();
  module.walk([&](Operation *op) {
    bool isProduct = isa<graph::ContractOp, graph::AttentionOp, graph::AttentionGradOp>(op);
    bool isLacking = target::isConv(op) || (isProduct && !hasProduct(op));
    if (!isLacking)
      return WalkResult::advance();
    if (target::isConv(op)) {
      result = op->emitError("convolutions can't be compiled for --target cuda yet");
      return WalkResult::interrupt();
    }
    SmallVector<Type> types = {getElementTypeOrSelf(op->getOperand(0)),
                               getElementTypeOrSelf(op->getOperand(1))};
    if (llvm::is_contained(known, std::pair(op->getName(), types)))
      return WalkResult::advance();
    known.push_back({op->getName(), types});
    result = op->emitError("cuBLASLt has no such operation for these element types: ")
             << op->getName().stripDialect() << " of " << types[0] << " and " << types[1] << " to "
             << getElementTypeOrSelf(op->getResult(0));
    return WalkResult::advance();
  });
  return result;
}

FailureOr<uint64_t> LibraryWorkspace::bytesOf(Operation *op) {
  if (target::isConv(op))
    return op->emitOpError("convolutions can't be compiled for --target cuda yet");
  return isa<exec::MatmulOp>(op) ? kProductWorkspace : 0;
}

} // namespace dtc::cuda
