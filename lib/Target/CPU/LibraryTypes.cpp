#include "LibraryScratch.h"

#include "dtc/Target/CPU/Features.h"
#include "dtc/Target/LibraryRecords.h"

using namespace mlir;

namespace dtc::cpu {
namespace {

/// The element types of a call are the same for whatever size it has.
using ElementTypes = SmallVector<Type, 3>;

/// As the library sees a tensor of `element`.
Type seenType(Type element) {
  bool isHalf = element.isF16() || element.isBF16();
  return isHalf && !multiplies(element) ? Float32Type::get(element.getContext()) : element;
}

ElementTypes elementTypesOf(Operation *op) {
  auto typeOf = [](Value value) { return seenType(getElementTypeOrSelf(value)); };
  return {typeOf(op->getOperand(0)), typeOf(op->getOperand(1)), typeOf(op->getResult(0))};
}

/// Whether the library has the smallest contraction of these types. Attention becomes contractions.
bool hasProduct(rt::fbs::DType a, rt::fbs::DType b, rt::fbs::DType result) {
  auto tensor = [](rt::fbs::DType type) { return StridedTensor{type, {2, 2}, {2, 1}}; };
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  try {
    describe(MatmulCall{tensor(a), tensor(b), tensor(result)}, engine);
    return true;
  } catch (const dnnl::error &) {
    return false;
  }
}

bool hasProduct(const ElementTypes &types) {
  auto typeOf = [](Type type) { return target::dtypeOf(type).value_or(rt::fbs::DType::F64); };
  return hasProduct(typeOf(types[0]), typeOf(types[1]), typeOf(types[2]));
}

bool hasConvolution(Operation *op, const ElementTypes &types) {
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  rt::fbs::ConvT record = target::convRecord(op);
  const rt::fbs::DType half = record.input->dtype;
  rt::fbs::TensorT *tensors[] = {record.input.get(), record.weight.get(), record.output.get()};
  for (rt::fbs::TensorT *tensor : tensors)
    if (tensor->dtype == half)
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

bool multiplies(Type half) {
  static const bool hasBf16 =
      hasProduct(rt::fbs::DType::BF16, rt::fbs::DType::BF16, rt::fbs::DType::F32);
  return half.isBF16() && hasBf16;
}

LogicalResult checkLibraryTypes(ModuleOp module) {
  llvm::SmallVector<std::pair<OperationName, ElementTypes>> known;
  LogicalResult result = success();
  module.walk([&](Operation *op) {
    if (!isa<graph::ContractOp>(op) && !target::isConv(op))
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
