#include "LibraryScratch.h"

#include "dtc/Target/LibraryRecords.h"

using namespace mlir;

namespace dtc::cpu {
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
    return TensorLayout{target::dtypeOf(type).value_or(rt::fbs::DType::F64), {2, 2}, {2, 1}};
  };
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  try {
    describe(MatmulCall{tensor(types[0]), tensor(types[1]), tensor(types[2])}, engine);
    return true;
  } catch (const dnnl::error &) {
    return false;
  }
}

bool hasConvolution(Operation *op) {
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  try {
    describe(callOf(target::convRecord(op)), engine);
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
    if (!isa<graph::ContractOp, graph::AttentionOp, graph::AttentionGradOp>(op) &&
        !target::isConv(op))
      return;
    std::pair<OperationName, ElementTypes> key(op->getName(), elementTypesOf(op));
    if (llvm::is_contained(known, key))
      return;
    if (target::isConv(op) ? !hasConvolution(op) : !hasProduct(key.second)) {
      result = op->emitError("oneDNN has no such operation for these element types on this "
                             "processor: ")
               << op->getName().stripDialect() << " of " << key.second[0] << " and "
               << key.second[1] << " to " << key.second[2];
    }
    known.push_back(std::move(key));
  });
  return result;
}

} // namespace dtc::cpu
