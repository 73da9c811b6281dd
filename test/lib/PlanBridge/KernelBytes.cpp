#include "KernelBytes.h"

#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Kernels/ElementTypes.h"

#include <algorithm>

using namespace mlir;

namespace dtc::test {

static double bytesOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return double(type.getNumElements() * kernels::storageBytes(type.getElementType()));
}

/// What a kernel reads of a value. Of what it slices or looks up it reads that part alone.
static double bytesRead(Value value) {
  double bytes = 0;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    const bool isLookup = isa<graph::GatherOp, graph::PickOp>(user) && use.getOperandNumber() == 0;
    if (isa<graph::ReshapeOp, graph::TransposeOp>(user))
      bytes += bytesRead(user->getResult(0));
    else
      bytes += isLookup || isa<graph::SliceOp>(user) ? bytesOf(user->getResult(0)) : bytesOf(value);
  }
  return std::min(bytes, bytesOf(value));
}

/// How many times the elements of what it was formed for a launch has: kernels that differ in
/// their sizes alone are one.
static double scaleOf(Value formed, Value launched) {
  return double(cast<RankedTensorType>(launched.getType()).getNumElements()) /
         double(cast<RankedTensorType>(formed.getType()).getNumElements());
}

double bytesMoved(exec::LaunchOp launch, exec::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  auto scatters = body.getOps<graph::ScatterAddOp>();
  ArrayRef<int64_t> inPlace = launch.getInPlace();
  const bool adds = !scatters.empty() && inPlace.size() == 1 && inPlace[0] >= 0;
  double bytes = 0;
  for (BlockArgument argument : body.getArguments())
    if (!adds || argument.getArgNumber() != inPlace[0])
      bytes += bytesRead(argument) * scaleOf(argument, launch.getInputs()[argument.getArgNumber()]);
  if (adds)
    return bytes + 2 * bytesOf((*scatters.begin()).getUpdates());
  for (Value result : launch.getResults())
    bytes += bytesOf(result);
  return bytes;
}

} // namespace dtc::test
