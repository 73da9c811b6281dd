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

void dtc::graph::setAdapter(ParameterOp parameter, const Adapter &adapter) {
  Builder b(parameter.getContext());
  parameter->setAttr(kAdapter,
                     b.getArrayAttr({b.getF64FloatAttr(adapter.deviation),
                                     FlatSymbolRefAttr::get(b.getContext(), adapter.base),
                                     b.getBoolAttr(adapter.isUp), b.getF64FloatAttr(adapter.scale),
                                     b.getI64IntegerAttr(int64_t(adapter.layout))}));
}

std::optional<Adapter> dtc::graph::adapterOf(ParameterOp parameter) {
  auto parts = parameter->getAttrOfType<ArrayAttr>(kAdapter);
  if (!parts)
    return std::nullopt;
  return Adapter{cast<FloatAttr>(parts[0]).getValueAsDouble(),
                 cast<FlatSymbolRefAttr>(parts[1]).getValue(), cast<BoolAttr>(parts[2]).getValue(),
                 cast<FloatAttr>(parts[3]).getValueAsDouble(),
                 Adapter::Layout(cast<IntegerAttr>(parts[4]).getInt())};
}
