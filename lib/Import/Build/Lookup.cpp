#include "dtc/Import/Build/Lookup.h"

#include "dtc/Import/Build/Indices.h"
#include "dtc/Import/Build/Movement.h"
#include "dtc/Import/Unsupported.h"

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
  return rearrange(data, replaced(data.shape, indices.shape), replaced(data.stored, indices.stored),
                   [&](ArrayRef<int64_t> at) {
                     int64_t from = dot(at.take_front(axis), ArrayRef(steps).take_front(axis));
                     from += indices.ints[dot(at.slice(axis, rank), indexSteps)] * steps[axis];
                     return from +
                            dot(at.drop_front(axis + rank), ArrayRef(steps).drop_front(axis + 1));
                   });
}

FailureOr<Tensor> gatherTensor(Conversion &node, const Tensor &data, const Tensor &indices,
                               int64_t axis) {
  if (!isa<IntegerType>(indices.element()))
    return LogicalResult(node.error() << "needs integer indices");
  Host constant = indices.host;
  if (constant) {
    constant = normalizeIndices(node, constant, data.shape()[axis]);
    if (!constant)
      return failure();
    if (data.host)
      if (Host result = gatherHost(*data.host, *constant, axis))
        return Tensor(result);
    if (constant->size() > 0)
      return Tensor(gatherAtConstants(node.emit, node.value(data), *constant, axis));
  }
  auto at = runTimeIndices(node, node.value(indices), data.element(), data.shape()[axis]);
  if (failed(at))
    return failure();
  Value found = gather(node.emit, node.value(data), at->at, axis);
  auto dims = llvm::to_vector(llvm::seq<int64_t>(axis, axis + indices.rank()));
  return Tensor(refuseOutside(node.emit, found, *at, dims));
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
FailureOr<Tensor> gatherElements(Conversion &node, const Tensor &data, const Tensor &indices,
                                 int64_t axis) {
  const Shape shape = data.shape(), wanted = indices.shape();
  if (shape.size() != wanted.size() || !isa<IntegerType>(indices.element()))
    return LogicalResult(node.error() << "needs integer indices of rank " << shape.size());
  for (size_t i = 0; i < shape.size(); ++i)
    if (int64_t(i) != axis && wanted[i] > shape[i])
      return LogicalResult(node.error() << "has more indices than elements");
  // Of integers that are equal along the axis it doesn't matter which is meant.
  if (data.host && !indices.host && data.host->stored[axis] == 1 && !data.host->isFloat()) {
    Tensor any = sliceTensor(node, data, axis, 0, 1);
    for (int64_t i = 0; i < int64_t(shape.size()); ++i)
      if (i != axis)
        any = sliceTensor(node, any, i, 0, wanted[i]);
    return expandTensor(node, any, wanted);
  }
  if (data.host && indices.host) {
    Host constant = normalizeIndices(node, indices.host, shape[axis]);
    if (!constant)
      return failure();
    if (Host result = gatherElementsHost(*data.host, *constant, axis))
      return Tensor(result);
  }
  Shape toLast; // its own inverse: exchanges two dimensions
  Value rows = node.value(data);
  for (int64_t i = 0; i < data.rank(); ++i) {
    toLast.push_back(i);
    if (i != axis)
      rows = sliceDim(node.emit, rows, i, 0, wanted[i]);
  }
  std::swap(toLast[axis], toLast.back());
  auto at = runTimeIndices(node, node.value(indices), data.element(), shape[axis]);
  if (failed(at))
    return failure();
  Value picked =
      pickEach(node.emit, transpose(node.emit, rows, toLast), transpose(node.emit, at->at, toLast));
  picked = transpose(node.emit, picked, toLast);
  return Tensor(
      refuseOutside(node.emit, picked, *at, llvm::to_vector(llvm::seq<int64_t>(wanted.size()))));
}

FailureOr<Tensor> cumulativeSum(Conversion &node, const Tensor &tensor, int64_t axis,
                                bool exclusive, bool reverse) {
  if (!tensor.host) {
    Value x = tensor.value;
    return Tensor(
        graph::CumSumOp::create(node.emit, x.getType(), x, axis, exclusive, reverse).getResult());
  }
  const HostTensor &host = *tensor.host;
  Shape stored = host.stored;
  const int64_t size = stored[axis] = host.shape[axis];
  if (!fitsConstant(host.element, stored))
    return LogicalResult(unsupported(node.error())
                         << "of a constant of more than 1 MiB is not supported");
  auto result = std::make_shared<HostTensor>(host.element, host.shape, stored);
  const Shape steps = host.strides();
  Shape to = HostTensor(host.element, stored, stored).strides(), rows = stored;
  rows[axis] = 1;
  forEachIndex(rows, [&](ArrayRef<int64_t> index) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t n = 0; n < size; ++n) {
      const int64_t k = reverse ? size - 1 - n : n;
      const int64_t from = dot(index, steps) + k * steps[axis];
      const int64_t at = dot(index, to) + k * to[axis];
      const double before = sum;
      const int64_t countBefore = count;
      if (host.isFloat())
        result->floats[at] =
            (sum = roundTo(host.element, sum + host.floats[from]), exclusive ? before : sum);
      else
        result->ints[at] =
            (count = wrapTo(host.element, int64_t(uint64_t(count) + uint64_t(host.ints[from]))),
             exclusive ? countBefore : count);
    }
  });
  result->compress();
  return Tensor(result);
}

FailureOr<Tensor> oneHot(Conversion &node, const Tensor &positions, int64_t axis, int64_t depth,
                         const HotValues &values) {
  Emitter &emit = node.emit;
  const int64_t rank = positions.rank();
  Shape shape = positions.shape(), dims;
  shape.insert(shape.begin() + axis, depth);
  if (failed(node.checkShape(shape)))
    return failure();
  for (int64_t i = 0; i <= rank; ++i)
    if (i != axis)
      dims.push_back(i);
  Value at = castTo(emit, node.value(positions), emit.getI64Type());
  Value negative =
      arith::CmpIOp::create(emit, arith::CmpIPredicate::slt, at, splatLike(emit, at, 0));
  Value shifted = arith::AddIOp::create(emit, at, splatLike(emit, at, depth));
  at = arith::SelectOp::create(emit, negative, shifted, at);
  auto indexType = RankedTensorType::get(shape, emit.getI64Type());
  Value hot =
      arith::CmpIOp::create(emit, arith::CmpIPredicate::eq, broadcastAlong(emit, at, shape, dims),
                            graph::IotaOp::create(emit, indexType, axis));
  auto type = RankedTensorType::get(shape, values.element);
  return Tensor(arith::SelectOp::create(emit, hot, splat(emit, type, values.on),
                                        splat(emit, type, values.off))
                    .getResult());
}

} // namespace dtc::import
