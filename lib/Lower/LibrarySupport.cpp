#include "dtc/Lower/LibrarySupport.h"

#include "LibraryOps.h"

using namespace mlir;

namespace dtc::lower {
namespace {

/// The element types of a call are the same for whatever size it has.
using ElementTypes = SmallVector<Type, 3>;

ElementTypes elementTypesOf(Operation *op) {
  return {getElementTypeOrSelf(op->getOperand(0)), getElementTypeOrSelf(op->getOperand(1)),
          getElementTypeOrSelf(op->getResult(0))};
}

/// Whether the library has the smallest contraction of these types. Attention becomes contractions.
bool hasProduct(const ElementTypes &types) {
  auto tensor = [](Type type) {
    return rt::TensorLayout{dtypeOf(type).value_or(rt::fbs::DType::F64), {2, 2}, {2, 1}};
  };
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  try {
    rt::describe(rt::MatmulCall{tensor(types[0]), tensor(types[1]), tensor(types[2])}, engine);
    return true;
  } catch (const dnnl::error &) {
    return false;
  }
}

bool hasConvolution(Operation *op) {
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  try {
    rt::describe(convCall(op), engine);
    return true;
  } catch (const dnnl::error &) {
    return false;
  }
}

} // namespace

LogicalResult checkLibraryTypes(ModuleOp module) {
  llvm::SmallVector<std::pair<OperationName, ElementTypes>> known;
  LogicalResult result = success();
  module.walk([&](Operation *op) {
    if (!isa<graph::ContractOp, graph::AttentionOp, graph::AttentionGradOp>(op) && !isConv(op))
      return;
    std::pair<OperationName, ElementTypes> key(op->getName(), elementTypesOf(op));
    if (llvm::is_contained(known, key))
      return;
    if (isConv(op) ? !hasConvolution(op) : !hasProduct(key.second)) {
      result = op->emitError("oneDNN has no such operation for these element types on this "
                             "processor: ")
               << op->getName().stripDialect() << " of " << key.second[0] << " and "
               << key.second[1] << " to " << key.second[2];
    }
    known.push_back(std::move(key));
  });
  return result;
}

bool lacksLibraryCall(ModuleOp module, int64_t threads) {
  // Planning memory has named the call.
  ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &) { return success(); });
  ScratchSizes sizes(module, threads);
  auto isLacking = [&](Operation *op) {
    bool isCall = isa<exec::MatmulOp>(op) || isConv(op);
    return WalkResult(isCall && failed(sizes.bytesOf(op)) ? failure() : success());
  };
  return module.walk(isLacking).wasInterrupted();
}

} // namespace dtc::lower
