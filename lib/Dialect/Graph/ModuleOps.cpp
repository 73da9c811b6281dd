#include "dtc/Dialect/Graph/Adapters.h"

using namespace mlir;
using namespace dtc::graph;

/// On a dtc.parameter.
static constexpr llvm::StringLiteral kAdapter = "dtc.adapter";

LogicalResult ParameterOp::verify() {
  auto type = cast<RankedTensorType>(getType()), fileType = cast<RankedTensorType>(getFileType());
  const int64_t elements = fileType.getNumElements(), seen = type.getNumElements();
  const bool hasMoreRows = seen > elements && type.getRank() == fileType.getRank() &&
                           type.getShape().drop_front() == fileType.getShape().drop_front();
  if (seen != elements && !hasMoreRows)
    return emitOpError() << "the file has " << elements
                         << " elements, its view must have as many, or more rows: " << seen;
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
