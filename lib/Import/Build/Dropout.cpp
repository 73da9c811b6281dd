#include "dtc/Import/Build/Dropout.h"

#include "dtc/Dialect/Graph/RandomOps.h"
#include "dtc/Import/Unsupported.h"

using namespace mlir;

namespace dtc::import {

FailureOr<Tensor> dropout(Conversion &node, const Tensor &input, double ratio) {
  if (!(ratio >= 0 && ratio <= 1))
    return LogicalResult(node.error()
                         << "drops elements with a probability that is none: " << ratio);
  if (ratio == 0)
    return input;
  if (!isa<FloatType>(input.element()))
    return LogicalResult(unsupported(node.error()) << "is not supported on " << input.element());
  return Tensor(graph::DropoutOp::create(node.emit, node.value(input), ratio).getResult());
}

} // namespace dtc::import
