#include "dtc/Dialect/Graph/Adapters.h"

using namespace mlir;
using namespace dtc::graph;

LogicalResult ParameterOp::verify() {
  auto type = cast<RankedTensorType>(getType()), fileType = cast<RankedTensorType>(getFileType());
  if (type.getNumElements() != fileType.getNumElements())
    return emitOpError() << "the file has " << fileType.getNumElements()
                         << " elements, its view must have as many: " << type.getNumElements();
  if (getTrainable() && getBuffer())
    return emitOpError() << "a buffer is not trainable: " << getSymName();
  if (getTrainable() && !isa<FloatType>(type.getElementType()))
    return emitOpError() << "only floats are trainable: " << type.getElementType();
  return success();
}

/// On a dtc.parameter.
static constexpr llvm::StringLiteral kAdapter = "dtc.adapter";

void dtc::graph::setAdapter(ParameterOp parameter, double deviation) {
  parameter->setAttr(kAdapter, Builder(parameter.getContext()).getF64FloatAttr(deviation));
}

std::optional<double> dtc::graph::adapterDeviation(ParameterOp parameter) {
  auto deviation = parameter->getAttrOfType<FloatAttr>(kAdapter);
  return deviation ? std::optional(deviation.getValueAsDouble()) : std::nullopt;
}
