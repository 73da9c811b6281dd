#include "dtc/Dialect/Graph/Graph.h"

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
