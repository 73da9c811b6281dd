#include "dtc/Import/Build/StopGradient.h"

#include "dtc/Dialect/Graph/StopGradientOp.h"

using namespace mlir;

namespace dtc::import {

/// Where there is no gradient to stop, nothing stands between the operators that layers are made
/// of.
Tensor stopGradient(Conversion &node, const Tensor &tensor) {
  if (!tensor.value || !isa<FloatType>(tensor.element()) ||
      !raise::dependsOnParameter(tensor.value))
    return tensor;
  return Tensor(graph::StopGradientOp::create(node.emit, tensor.value).getResult());
}

} // namespace dtc::import
