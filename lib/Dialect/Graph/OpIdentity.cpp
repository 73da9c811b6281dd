#include "dtc/Dialect/Graph/OpIdentity.h"

#include "mlir/IR/OperationSupport.h"

using namespace mlir;

namespace dtc::graph {

/// One by one where all are attributes: putting them into a dictionary takes far longer.
void appendOwnAttributes(Operation *op, std::vector<uintptr_t> &key) {
  auto add = [&](Attribute attr) {
    key.push_back(reinterpret_cast<uintptr_t>(attr.getAsOpaquePointer()));
  };
  ArrayRef<StringAttr> names = op->getRegisteredInfo()->getAttributeNames();
  if (size_t(op->getPropertiesStorageSize()) != names.size() * sizeof(Attribute))
    return add(op->getPropertiesAsAttribute());
  for (StringAttr name : names)
    add(op->getInherentAttr(name).value_or(Attribute()));
}

} // namespace dtc::graph
