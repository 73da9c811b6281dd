#include "dtc/Dialect/Graph/Adapters.h"
#include "dtc/Dialect/Graph/FilledView.h"
#include "dtc/Dialect/Graph/StepOps.h"

using namespace mlir;
using namespace dtc::graph;

/// On a dtc.parameter.
static constexpr llvm::StringLiteral kAdapter = "dtc.adapter", kFilled = "dtc.filled";

LogicalResult ParameterOp::verify() {
  auto type = cast<RankedTensorType>(getType()), fileType = cast<RankedTensorType>(getFileType());
  if (Attribute filled = (*this)->getAttr(kFilled); filled && !isa<DenseI64ArrayAttr>(filled))
    return emitOpError() << "dtc.filled must be a shape: " << filled;
  const int64_t elements = fileType.getNumElements(), seen = type.getNumElements();
  ArrayRef<int64_t> filled = filledOf(*this);
  const bool fits =
      filled.size() == type.getShape().size() && ShapedType::getNumElements(filled) == elements &&
      llvm::all_of(llvm::zip_equal(filled, type.getShape()),
                   [](auto sizes) { return std::get<0>(sizes) <= std::get<1>(sizes); });
  if (!fits)
    return emitOpError() << "the file has " << elements
                         << " elements, its view must have as many, or be longer: " << seen;
  if (weightOf(RoleKind::Gradient, getSymName()) != getSymName())
    return emitOpError() << "a parameter may not be called as a chunk's gradient is: "
                         << getSymName();
  if (getTrainable() && getBuffer())
    return emitOpError() << "a buffer is not trainable: " << getSymName();
  if (getTrainable() && !isa<FloatType>(type.getElementType()))
    return emitOpError() << "only floats are trainable: " << type.getElementType();
  if (Attribute adapter = (*this)->getAttr(kAdapter); adapter && !isa<AdapterAttr>(adapter))
    return emitOpError() << "dtc.adapter must be a #dtc.adapter: " << adapter;
  return success();
}

ArrayRef<int64_t> dtc::graph::filledOf(ParameterOp parameter) {
  if (auto filled = parameter->getAttrOfType<DenseI64ArrayAttr>(kFilled))
    return filled.asArrayRef();
  auto type = cast<RankedTensorType>(parameter.getType()),
       file = cast<RankedTensorType>(parameter.getFileType());
  return type.getNumElements() == file.getNumElements() ? type.getShape() : file.getShape();
}

void dtc::graph::makeLonger(ParameterOp parameter, RankedTensorType type) {
  const SmallVector<int64_t> filled(filledOf(parameter));
  parameter.setType(type);
  if (ArrayRef<int64_t>(filled) != filledOf(parameter))
    parameter->setAttr(kFilled, DenseI64ArrayAttr::get(parameter.getContext(), filled));
}

void dtc::graph::setAdapter(ParameterOp parameter, AdapterAttr adapter) {
  parameter->setAttr(kAdapter, adapter);
}

AdapterAttr dtc::graph::adapterOf(ParameterOp parameter) {
  return parameter->getAttrOfType<AdapterAttr>(kAdapter);
}
