// Reductions.
#include "GraphBuilder.h"
#include "dtc/Import/Build/Reduction.h"

using namespace mlir;

namespace dtc::import {

static LogicalResult convertReduce(NodeConverter &node) {
  const bool noop = node.attrInt("noop_with_empty_axes", 0);
  auto axes = node.axes(1, node.input(0).rank(), !noop);
  if (failed(axes))
    return failure();
  return node.define(
      reduceTensor(node, node.op(), node.input(0), *axes, node.attrInt("keepdims", 1)));
}

void addReductionConverters(ConverterTable &table) {
  for (const char *op :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
        "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"})
    table[op] = convertReduce;
}

} // namespace dtc::import
