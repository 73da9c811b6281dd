// Operators that address elements by value: gathers, one-hot, running sums.
#include "Indices.h"
#include "Movement.h"

using namespace mlir;

namespace dtc::import {

/// Elements of `data` along `axis` at constant `indices`.
static Host gatherHost(const HostTensor &data, const HostTensor &indices, int64_t axis) {
  auto replaced = [&](const Shape &outer, const Shape &inner) {
    Shape shape(outer.begin(), outer.begin() + axis);
    shape.append(inner);
    shape.append(outer.begin() + axis + 1, outer.end());
    return shape;
  };
  const Shape steps = data.strides(), indexSteps = indices.strides();
  const int64_t rank = indices.shape.size();
  return rearrange(data, replaced(data.shape, indices.shape),
                   replaced(data.stored, indices.stored), [&](ArrayRef<int64_t> at) {
                     int64_t from = dot(at.take_front(axis), ArrayRef(steps).take_front(axis));
                     from += indices.ints[dot(at.slice(axis, rank), indexSteps)] * steps[axis];
                     return from + dot(at.drop_front(axis + rank),
                                       ArrayRef(steps).drop_front(axis + 1));
                   });
}

static LogicalResult convertGather(NodeConverter &node) {
  const Tensor &data = node.input(0), &indices = node.input(1);
  auto axis = node.axis(node.attrInt("axis", 0), data.rank());
  if (failed(axis))
    return failure();
  if (!isa<IntegerType>(indices.element()))
    return node.error() << "needs integer indices";
  Host constant = indices.host;
  if (constant) {
    constant = normalizeIndices(node, constant, data.shape()[*axis]);
    if (!constant)
      return failure();
    if (data.host)
      if (Host result = gatherHost(*data.host, *constant, *axis))
        return node.define(Tensor(result));
    if (constant->size() > 0)
      return node.define(gatherAtConstants(node.emit, node.value(0), *constant, *axis));
  }
  auto at = runTimeIndices(node, node.value(1), data.element(), data.shape()[*axis]);
  if (failed(at))
    return failure();
  Value found = gather(node.emit, node.value(0), at->at, *axis);
  auto dims = llvm::to_vector(llvm::seq<int64_t>(*axis, *axis + indices.rank()));
  return node.define(refuseOutside(node.emit, found, *at, dims));
}

/// Constants picked out of a constant along one dimension; null when it is too large.
static Host gatherElementsHost(const HostTensor &data, const HostTensor &indices, int64_t axis) {
  Shape stored = indices.stored;
  for (size_t i = 0; i < stored.size(); ++i)
    if (int64_t(i) != axis && data.stored[i] != 1)
      stored[i] = indices.shape[i];
  const Shape steps = data.strides(), indexSteps = indices.strides();
  return rearrange(data, indices.shape, stored, [&](ArrayRef<int64_t> at) {
    int64_t from = indices.ints[dot(at, indexSteps)] * steps[axis];
    for (size_t i = 0; i < at.size(); ++i)
      if (int64_t(i) != axis)
        from += at[i] * steps[i];
    return from;
  });
}

/// Rows of values of the graph are moved to the last dimension and their elements picked there.
static LogicalResult convertGatherElements(NodeConverter &node) {
  const Tensor &data = node.input(0), &indices = node.input(1);
  auto axis = node.axis(node.attrInt("axis", 0), data.rank());
  if (failed(axis))
    return failure();
  const Shape shape = data.shape(), wanted = indices.shape();
  if (shape.size() != wanted.size() || !isa<IntegerType>(indices.element()))
    return node.error() << "needs integer indices of rank " << shape.size();
  for (size_t i = 0; i < shape.size(); ++i)
    if (int64_t(i) != *axis && wanted[i] > shape[i])
      return node.error() << "has more indices than elements";
  if (data.host && indices.host) {
    Host constant = normalizeIndices(node, indices.host, shape[*axis]);
    if (!constant)
      return failure();
    if (Host result = gatherElementsHost(*data.host, *constant, *axis))
      return node.define(Tensor(result));
  }
  Shape toLast; // its own inverse: exchanges two dimensions
  Value rows = node.value(0);
  for (int64_t i = 0; i < data.rank(); ++i) {
    toLast.push_back(i);
    if (i != *axis)
      rows = sliceDim(node.emit, rows, i, 0, wanted[i]);
  }
  std::swap(toLast[*axis], toLast.back());
  auto at = runTimeIndices(node, node.value(1), data.element(), shape[*axis]);
  if (failed(at))
    return failure();
  Value picked = pickEach(node.emit, transpose(node.emit, rows, toLast),
                          transpose(node.emit, at->at, toLast));
  picked = transpose(node.emit, picked, toLast);
  return node.define(refuseOutside(node.emit, picked, *at,
                                   llvm::to_vector(llvm::seq<int64_t>(wanted.size()))));
}

static LogicalResult convertCumSum(NodeConverter &node) {
  const Tensor &tensor = node.input(0);
  auto given = node.scalarInt(1, "axis");
  if (failed(given))
    return failure();
  auto axis = node.axis(*given, tensor.rank());
  if (failed(axis))
    return failure();
  const bool exclusive = node.attrInt("exclusive", 0), reverse = node.attrInt("reverse", 0);
  if (!tensor.host) {
    Value x = tensor.value;
    return node.define(
        graph::CumSumOp::create(node.emit, x.getType(), x, *axis, exclusive, reverse).getResult());
  }
  const HostTensor &host = *tensor.host;
  Shape stored = host.stored;
  const int64_t size = stored[*axis] = host.shape[*axis];
  if (!fitsConstant(host.element, stored))
    return node.error() << "of a constant of more than 1 MiB is not supported";
  auto result = std::make_shared<HostTensor>(host.element, host.shape, stored);
  const Shape steps = host.strides();
  Shape to = HostTensor(host.element, stored, stored).strides(), rows = stored;
  rows[*axis] = 1;
  forEachIndex(rows, [&](ArrayRef<int64_t> index) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t n = 0; n < size; ++n) {
      const int64_t k = reverse ? size - 1 - n : n;
      const int64_t from = dot(index, steps) + k * steps[*axis];
      const int64_t at = dot(index, to) + k * to[*axis];
      const double before = sum;
      const int64_t countBefore = count;
      if (host.isFloat())
        result->floats[at] = (sum = roundTo(host.element, sum + host.floats[from]),
                              exclusive ? before : sum);
      else
        result->ints[at] =
            (count = wrapTo(host.element, int64_t(uint64_t(count) + uint64_t(host.ints[from]))),
             exclusive ? countBefore : count);
    }
  });
  result->compress();
  return node.define(Tensor(result));
}

static LogicalResult convertOneHot(NodeConverter &node) {
  Emitter &emit = node.emit;
  auto depth = node.scalarInt(1, "depth");
  Host values = node.host(2);
  const int64_t rank = node.input(0).rank();
  auto axis = node.axis(node.attrInt("axis", -1), rank + 1);
  if (failed(depth) || failed(axis))
    return failure();
  if (!values || values->size() != 2 || *depth < 1)
    return node.error() << "needs depth and values known while compiling";
  const bool same = values->isSplat();
  Shape shape = node.input(0).shape(), dims;
  shape.insert(shape.begin() + *axis, *depth);
  if (failed(node.checkShape(shape)))
    return failure();
  for (int64_t i = 0; i <= rank; ++i)
    if (i != *axis)
      dims.push_back(i);
  Value at = castTo(emit, node.value(0), emit.getI64Type());
  Value negative = arith::CmpIOp::create(emit, arith::CmpIPredicate::slt, at,
                                         splatLike(emit, at, 0));
  Value shifted = arith::AddIOp::create(emit, at, splatLike(emit, at, *depth));
  at = arith::SelectOp::create(emit, negative, shifted, at);
  auto indexType = RankedTensorType::get(shape, emit.getI64Type());
  Value hot = arith::CmpIOp::create(emit, arith::CmpIPredicate::eq,
                                    broadcastAlong(emit, at, shape, dims),
                                    graph::IotaOp::create(emit, indexType, *axis));
  auto type = RankedTensorType::get(shape, values->element);
  return node.define(arith::SelectOp::create(emit, hot,
                                             splat(emit, type, values->number(same ? 0 : 1)),
                                             splat(emit, type, values->number(0)))
                         .getResult());
}

void addIndexConverters(ConverterTable &table) {
  table["Gather"] = convertGather;
  table["GatherElements"] = convertGatherElements;
  table["CumSum"] = convertCumSum;
  table["OneHot"] = convertOneHot;
}

} // namespace dtc::import
