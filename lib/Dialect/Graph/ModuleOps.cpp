#include "dtc/Dialect/Graph/Adapters.h"

using namespace mlir;
using namespace dtc::graph;

/// On a dtc.parameter.
static constexpr llvm::StringLiteral kAdapter = "dtc.adapter";

LogicalResult ParameterOp::verify() {
  auto type = cast<RankedTensorType>(getType()), fileType = cast<RankedTensorType>(getFileType());
  const int64_t elements = fileType.getNumElements(), seen = type.getNumElements();
  const bool isLonger =
      type.getRank() == fileType.getRank() &&
      llvm::all_of(llvm::zip_equal(type.getShape(), fileType.getShape()),
                   [](auto sizes) { return std::get<0>(sizes) >= std::get<1>(sizes); });
  if (seen != elements && !isLonger)
    return emitOpError() << "the file has " << elements
                         << " elements, its view must have as many, or be longer: " << seen;
  if (getTrainable() && getBuffer())
    return emitOpError() << "a buffer is not trainable: " << getSymName();
  if (getTrainable() && !isa<FloatType>(type.getElementType()))
    return emitOpError() << "only floats are trainable: " << type.getElementType();
  if (Attribute adapter = (*this)->getAttr(kAdapter); adapter && !isa<AdapterAttr>(adapter))
    return emitOpError() << "dtc.adapter must be a #dtc.adapter: " << adapter;
  return success();
}

void dtc::graph::setAdapter(ParameterOp parameter, AdapterAttr adapter) {
  parameter->setAttr(kAdapter, adapter);
}

AdapterAttr dtc::graph::adapterOf(ParameterOp parameter) {
  return parameter->getAttrOfType<AdapterAttr>(kAdapter);
}
