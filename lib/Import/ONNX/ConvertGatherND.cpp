// GatherND and ScatterND: positions by several indices at once.
#include "GraphBuilder.h"
#include "dtc/Import/Build/GatherAt.h"
#include "dtc/Import/Build/Indices.h"
#include "dtc/Import/Build/Movement.h"

#include <numeric>
#include <set>

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

/// Rows of `data` replaced by those of `updates`: consecutive ones are joined with what stays
/// around them, others are looked up in both.
static LogicalResult replaceRows(NodeConverter &node, const Tensor &data, ArrayRef<int64_t> rows,
                                 const Tensor &updates) {
  const int64_t size = data.shape()[0], count = rows.size();
  bool consecutive = true;
  std::set<int64_t> written;
  for (int64_t i = 0; i < count; ++i) {
    if (!written.insert(rows[i]).second)
      return node.error() << "writes an element twice: row " << rows[i];
    consecutive &= rows[i] == rows[0] + i;
  }
  if (consecutive) {
    const int64_t end = rows[0] + count;
    auto joined = concatTensors(node,
                                {sliceTensor(node, data, 0, 0, rows[0]), updates,
                                 sliceTensor(node, data, 0, end, size - end)},
                                0);
    return failed(joined) ? failure() : node.define(*joined);
  }
  auto both = concatTensors(node, {data, updates}, 0);
  if (failed(both))
    return failure();
  if (!fitsConstant(node.emit.getI64Type(), {size}))
    return node.error() << "writes single rows into too many: " << size;
  std::vector<int64_t> from(size);
  std::iota(from.begin(), from.end(), 0);
  for (int64_t i = 0; i < count; ++i)
    from[rows[i]] = size + i;
  Host at = HostTensor::ofInts(node.emit.getI64Type(), {size}, std::move(from));
  return node.define(gatherAtConstants(node.emit, node.value(*both), *at, 0));
}

static LogicalResult convertScatterND(NodeConverter &node) {
  const Tensor &data = node.input(0), &indices = node.input(1), &updates = node.input(2);
  if (node.attrString("reduction", "none") != "none")
    return node.error() << "is supported without reduction only";
  if (!indices.host || indices.rank() < 1 || data.rank() < 1 || indices.shape().back() != 1 ||
      !isa<IntegerType>(indices.element()))
    return node.error() << "is supported for rows known while compiling only";
  Host at = normalizeIndices(node, indices.host, data.shape()[0]);
  if (!at)
    return failure();
  Shape shape(ArrayRef(indices.shape()).drop_back()), rows = data.shape();
  rows[0] = product(shape);
  shape.append(rows.begin() + 1, rows.end());
  if (updates.shape() != shape)
    return node.error() << "needs updates of the shape " << listed(shape) << ", got "
                        << listed(updates.shape());
  if (rows[0] == 0)
    return node.define(data);
  return replaceRows(node, data, at->intList(), reshapeTensor(node, updates, rows));
}

void addGatherNDConverter(ConverterTable &table) {
  table["GatherND"] = convertGatherND;
  table["ScatterND"] = convertScatterND;
}

} // namespace dtc::import
