#include "dtc/Import/Build/Selection.h"
#include "dtc/Dialect/Graph/TensorBuilder.h"
#include "dtc/Import/Build/Reduction.h"
#include "dtc/Import/Unsupported.h"

using namespace mlir;

namespace dtc::import {

FailureOr<TopElements> topK(Conversion &node, const Tensor &data, int64_t k, int64_t axis,
                            bool largest) {
  Emitter &emit = node.emit;
  const int64_t size = data.shape()[axis];
  if (k < 1 || k > size)
    return LogicalResult(node.error() << "takes a number between 1 and " << size << ": " << k);
  if (!isa<FloatType>(data.element()))
    return LogicalResult(node.error() << "is supported for floats only");
  Shape toLast; // its own inverse: exchanges two dimensions
  for (int64_t i = 0; i < data.rank(); ++i)
    toLast.push_back(i);
  std::swap(toLast[axis], toLast.back());
  Value rows = transpose(emit, node.value(data), toLast);
  Shape shape(tensorType(rows).getShape());
  shape.back() = k;
  Value indices =
      graph::TopKOp::create(emit, RankedTensorType::get(shape, emit.getI64Type()), rows, !largest);
  Value values = pickEach(emit, rows, indices);
  return TopElements{transpose(emit, values, toLast), transpose(emit, indices, toLast)};
}

/// The first position (the last one, if asked for) at which the extreme stands; NaN stands for it.
FailureOr<Tensor> argExtreme(Conversion &node, const Tensor &data, int64_t axis,
                             const ArgExtreme &which) {
  Emitter &emit = node.emit;
  const bool isFloat = isa<FloatType>(data.element());
  if (!isFloat && !data.element().isSignlessInteger(32) && !data.element().isSignlessInteger(64))
    return LogicalResult(unsupported(node.error()) << "is not supported on " << data.element());
  using K = graph::ReduceKind;
  const Shape shape = data.shape();
  Shape others;
  for (int64_t i = 0; i < data.rank(); ++i)
    if (i != axis)
      others.push_back(i);
  Value x = node.value(data);
  Value extreme = reduce(emit, which.isMax ? K::Max : K::Min, x, {axis});
  extreme = broadcastAlong(emit, extreme, shape, others);
  Value stands = isFloat ? arith::CmpFOp::create(emit, arith::CmpFPredicate::UEQ, x, extreme)
                         : Value(arith::CmpIOp::create(emit, arith::CmpIPredicate::eq, x, extreme));
  const bool last = which.last;
  auto type = RankedTensorType::get(shape, emit.getI64Type());
  Value position = graph::IotaOp::create(emit, type, axis);
  // The extreme stands somewhere, so that the farthest position doesn't show where it doesn't.
  Value none = splat(emit, type, last ? 0 : double(shape[axis] - 1));
  position = arith::SelectOp::create(emit, stands, position, none);
  Value found = reduce(emit, last ? K::Max : K::Min, position, {axis});
  Shape kept = shape;
  kept[axis] = 1;
  return Tensor(which.keepDims ? reshape(emit, found, kept) : found);
}

FailureOr<Tensor> firstExtreme(Conversion &node, const Tensor &data, int64_t axis,
                               const ArgExtreme &which) {
  auto extreme =
      reduceTensor(node, which.isMax ? "ReduceMax" : "ReduceMin", data, {axis}, which.keepDims);
  if (failed(extreme) || extreme->host || !isa<FloatType>(data.element()))
    return extreme;
  auto position = argExtreme(node, data, axis, {which.isMax, which.last, /*keepDims=*/false});
  if (failed(position))
    return position;
  graph::TensorBuilder b(node.emit, node.emit.getLoc());
  const Shape shape = data.shape();
  Value top = node.value(*extreme);
  Value isThere = b.compare(arith::CmpIPredicate::eq, b.iota(node.emit.getI64Type(), shape, axis),
                            b.spread(node.value(*position), shape, {axis}));
  Value element =
      b.reshape(b.sum(b.selectOr(isThere, node.value(data), 0.0), {axis}), extreme->shape());
  // Where it is no number, the position may be that of another element.
  return Tensor(b.select(b.compare(arith::CmpFPredicate::ORD, top, top), element, top));
}

} // namespace dtc::import
