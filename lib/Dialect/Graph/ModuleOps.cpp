#include "dtc/Dialect/Graph/Adapters.h"

using namespace mlir;
using namespace dtc::graph;

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
