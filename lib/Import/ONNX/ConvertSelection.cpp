// The largest or smallest elements of each row, and where they are.
#include "GraphBuilder.h"
#include "dtc/Import/Build/Selection.h"

using namespace mlir;

namespace dtc::import {

static LogicalResult convertTopK(NodeConverter &node) {
  auto axis = node.axis(node.attrInt("axis", -1), node.input(0).rank());
  auto k = node.has(1) || !node.attribute("k") ? node.scalarInt(1, "K") // an input from opset 10 on
                                               : FailureOr<int64_t>(node.attrInt("k", 0));
  if (failed(axis) || failed(k))
    return failure();
  auto top = topK(node, node.input(0), *k, *axis, node.attrInt("largest", 1) != 0);
  if (failed(top) || failed(node.define(1, top->indices)))
    return failure();
  return node.define(top->values);
}

static LogicalResult convertArgExtreme(NodeConverter &node) {
  auto axis = node.axis(node.attrInt("axis", 0), node.input(0).rank());
  if (failed(axis))
    return failure();
  ArgExtreme which = {node.op() == "ArgMax", node.attrInt("select_last_index", 0) != 0,
                      node.attrInt("keepdims", 1) != 0};
  return node.define(argExtreme(node, node.input(0), *axis, which));
}

void addSelectionConverters(ConverterTable &table) {
  table["TopK"] = convertTopK;
  table["ArgMax"] = convertArgExtreme;
  table["ArgMin"] = convertArgExtreme;
}

} // namespace dtc::import
