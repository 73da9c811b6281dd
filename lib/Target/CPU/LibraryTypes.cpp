#include "LibraryScratch.h"

#include "dtc/Target/CPU/Features.h"
#include "dtc/Target/LibraryRecords.h"

using namespace mlir;

namespace dtc::cpu {
namespace {

/// The element types of a call are the same for whatever size it has.
using ElementTypes = SmallVector<Type, 3>;

/// As the library sees them.
ElementTypes elementTypesOf(Operation *op) {
  auto typeOf = [](Value value) -> Type {
    Type element = getElementTypeOrSelf(value);
    return element.isF16() ? Float32Type::get(value.getContext()) : element;
  };
  return {typeOf(op->getOperand(0)), typeOf(op->getOperand(1)), typeOf(op->getResult(0))};
}

/// Whether the library has the smallest contraction of these types. Attention becomes contractions.
bool hasProduct(const ElementTypes &types) {
  auto tensor = [](Type type) {
    return StridedTensor{target::dtypeOf(type).value_or(rt::fbs::DType::F64), {2, 2}, {2, 1}};
  };
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  try {
    describe(MatmulCall{tensor(types[0]), tensor(types[1]), tensor(types[2])}, engine);
    return true;
  } catch (const dnnl::error &) {
    return false;
  }
}

bool hasConvolution(Operation *op, const ElementTypes &types) {
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  rt::fbs::ConvT record = target::convRecord(op);
  rt::fbs::TensorT *tensors[] = {record.input.get(), record.weight.get(), record.output.get()};
  for (rt::fbs::TensorT *tensor : tensors)
    if (tensor->dtype == rt::fbs::DType::F16)
      tensor->dtype = target::dtypeOf(types[0]).value_or(tensor->dtype);
  try {
    describe(callOf(record), engine);
    return true;
  } catch (const dnnl::error &) {
    return false;
  }
}

bool convertsF16() {
  std::vector<std::string> features = hostProcessor().features;
  return llvm::is_contained(features, "f16c");
}

} // namespace

LogicalResult checkLibraryTypes(ModuleOp module) {
  llvm::SmallVector<std::pair<OperationName, ElementTypes>> known;
  LogicalResult result = success();
  module.walk([&](Operation *op) {
    if (!isa<graph::ContractOp>(op) && !target::isLibraryCall(op))
      return;
    if (getElementTypeOrSelf(op->getOperand(0)).isF16() && !convertsF16()) {
      result = op->emitError("needs a processor that converts fp16 (F16C)");
      return;
    }
    std::pair<OperationName, ElementTypes> key(op->getName(), elementTypesOf(op));
    if (llvm::is_contained(known, key))
      return;
    if (target::isConv(op) ? !hasConvolution(op, key.second) : !hasProduct(key.second)) {
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
