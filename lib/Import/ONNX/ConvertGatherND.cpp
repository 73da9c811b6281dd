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

/// The position of each index in dimension `dim` of the indices.
static Tensor ownPosition(NodeConverter &node, ArrayRef<int64_t> shape, int64_t dim) {
  std::vector<int64_t> at;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) { at.push_back(index[dim]); });
  return Tensor(HostTensor::ofInts(node.emit.getI64Type(), Shape(shape), std::move(at)));
}

static LogicalResult convertGatherND(NodeConverter &node) {
  const Tensor &data = node.input(0), &indices = node.input(1);
  const int64_t batched = node.attrInt("batch_dims", 0);
  if (batched < 0 || indices.rank() <= batched || indices.shape().back() > data.rank() - batched ||
      !isa<IntegerType>(indices.element()))
    return node.error() << "has bad indices";
  if (batched > 0 && (!indices.host || !fitsConstant(indices.element(), indices.shape())))
    return node.error() << "with batch_dims needs indices known while compiling";
  const Shape shape = indices.shape(), lead(ArrayRef(shape).drop_back());
  SmallVector<Tensor> parts = indexComponents(node, indices);
  if (parts.empty())
    return node.error() << "needs indices known while compiling";
  for (int64_t dim = batched - 1; dim >= 0; --dim) {
    if (shape[dim] != data.shape()[dim])
      return node.error() << "has indices for another batch: " << shape[dim];
    parts.insert(parts.begin(), ownPosition(node, lead, dim));
  }
  return node.define(gatherAt(node, data, std::move(parts), lead));
}

void addGatherNDConverter(ConverterTable &table) { table["GatherND"] = {convertGatherND, 2}; }

} // namespace dtc::import
