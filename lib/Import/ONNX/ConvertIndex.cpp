// Operators that address elements by value: gathers, one-hot, running sums.
#include "GraphBuilder.h"
#include "dtc/Import/Build/Elementwise.h"
#include "dtc/Import/Build/Lookup.h"
#include "dtc/Import/Build/Movement.h"

using namespace mlir;

namespace dtc::import {

/// The axis that a node names of its first input.
static FailureOr<int64_t> axisOf(NodeConverter &node) {
  return node.axis(node.attrInt("axis", 0), node.input(0).rank());
}

static LogicalResult convertGather(NodeConverter &node) {
  auto axis = axisOf(node);
  return failed(axis) ? failure()
                      : node.define(gatherTensor(node, node.input(0), node.input(1), *axis));
}

static LogicalResult convertGatherElements(NodeConverter &node) {
  auto axis = axisOf(node);
  return failed(axis) ? failure()
                      : node.define(gatherElements(node, node.input(0), node.input(1), *axis));
}

/// Along which sums and products run.
static FailureOr<int64_t> runningAxis(NodeConverter &node) {
  auto given = node.scalarInt(1, "axis");
  return failed(given) ? FailureOr<int64_t>() : node.axis(*given, node.input(0).rank());
}

static LogicalResult convertCumSum(NodeConverter &node) {
  auto axis = runningAxis(node);
  if (failed(axis))
    return failure();
  const bool exclusive = node.attrInt("exclusive", 0), reverse = node.attrInt("reverse", 0);
  return node.define(cumulativeSum(node, node.input(0), *axis, exclusive, reverse));
}

/// One product for each position.
static LogicalResult convertCumProd(NodeConverter &node) {
  auto axis = runningAxis(node);
  if (failed(axis))
    return failure();
  const bool exclusive = node.attrInt("exclusive", 0), reverse = node.attrInt("reverse", 0);
  const int64_t size = node.input(0).shape()[*axis];
  if (failed(node.chargeNodes(3 * size)))
    return failure();
  Shape single = node.input(0).shape();
  single[*axis] = 1;
  Tensor running(HostTensor::splat(node.input(0).element(), single, 1));
  std::vector<Tensor> parts(size);
  for (int64_t i = 0; i < size; ++i) {
    const int64_t at = reverse ? size - 1 - i : i;
    auto next = binary(node, "Mul", running, sliceTensor(node, node.input(0), *axis, at, 1));
    if (failed(next) || failed(node.chargeFolded(*next)))
      return failure();
    parts[at] = exclusive ? running : *next;
    running = *next;
  }
  auto result = concatTensors(node, parts, *axis);
  return failed(result) ? failure() : node.define(*result);
}

/// Values that aren't known while importing, as they are computed or train.
static LogicalResult chooseHot(NodeConverter &node, int64_t axis, int64_t depth) {
  Emitter &emit = node.emit;
  auto hot = oneHot(node, node.input(0), axis, depth, {emit.getI1Type(), 0, 1});
  if (failed(hot))
    return failure();
  auto spread = [&](int64_t i) {
    Value one = reshape(emit, sliceDim(emit, node.value(2), 0, i, 1), {});
    return broadcastAlong(emit, one, tensorType(hot->value).getShape(), {});
  };
  return node.define(arith::SelectOp::create(emit, hot->value, spread(1), spread(0)).getResult());
}

static LogicalResult convertOneHot(NodeConverter &node) {
  auto depth = node.scalarInt(1, "depth");
  Host values = node.host(2);
  auto axis = node.axis(node.attrInt("axis", -1), node.input(0).rank() + 1);
  if (failed(depth) || failed(axis))
    return failure();
  if (node.input(2).shape() != Shape{2} || *depth < 1)
    return node.error() << "needs a positive depth and two values";
  if (!values)
    return chooseHot(node, *axis, *depth);
  const double off = values->number(0), on = values->number(values->isSplat() ? 0 : 1);
  return node.define(oneHot(node, node.input(0), *axis, *depth, {values->element, off, on}));
}

void addIndexConverters(ConverterTable &table) {
  table["Gather"] = {convertGather, 2};
  table["GatherElements"] = {convertGatherElements, 2};
  table["CumSum"] = {convertCumSum, 2};
  table["CumProd"] = {convertCumProd, 2};
  table["OneHot"] = {convertOneHot, 3};
}

} // namespace dtc::import
