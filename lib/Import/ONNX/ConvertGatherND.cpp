// GatherND: positions by several indices at once.
#include "GraphBuilder.h"
#include "dtc/Import/Build/GatherAt.h"
#include "dtc/Import/Build/Indices.h"
#include "dtc/Import/Build/Movement.h"

using namespace mlir;

namespace dtc::import {

/// One position per indexed dimension: the indices of GatherND taken apart
/// along their last dimension. Empty when that cannot be done.
static SmallVector<Tensor> indexComponents(NodeConverter &node, const Tensor &indices) {
  SmallVector<Tensor> parts;
  Shape shape = indices.shape();
  const int64_t count = shape.back();
  const Shape lead(ArrayRef(shape).drop_back());
  if (indices.host) {
    for (int64_t k = 0; k < count; ++k)
      parts.push_back(reshapeTensor(
          node, sliceTensor(node, indices, shape.size() - 1, k, 1), lead));
    return parts;
  }
  if (count == 1) {
    parts.push_back(reshape(node.emit, indices.value, lead));
    return parts;
  }
  auto concat = indices.value.getDefiningOp<graph::ConcatOp>();
  if (!concat || concat.getDim() != uint64_t(shape.size() - 1))
    return parts;
  for (Value part : concat.getInputs()) {
    if (graph::shapeOf(part).back() != 1)
      return {};
    parts.push_back(reshape(node.emit, part, lead));
  }
  return parts;
}

static LogicalResult convertGatherND(NodeConverter &node) {
  const Tensor &data = node.input(0), &indices = node.input(1);
  if (node.attrInt("batch_dims", 0) != 0)
    return node.error() << "is supported with batch_dims 0 only";
  if (indices.rank() < 1 || indices.shape().back() > data.rank() ||
      !isa<IntegerType>(indices.element()))
    return node.error() << "has bad indices";
  const Shape shape = indices.shape(), lead(ArrayRef(shape).drop_back());
  SmallVector<Tensor> parts = indexComponents(node, indices);
  if (parts.empty())
    return node.error() << "needs indices known while compiling";
  return node.define(gatherAt(node, data, std::move(parts), lead));
}

void addGatherNDConverter(ConverterTable &table) { table["GatherND"] = convertGatherND; }

} // namespace dtc::import
