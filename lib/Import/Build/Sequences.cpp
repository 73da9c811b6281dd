#include "dtc/Import/Build/Sequences.h"

#include <cmath>

using namespace mlir;

namespace dtc::import {

FailureOr<Tensor> range(Conversion &node, const HostTensor &start, const HostTensor &limit,
                        const HostTensor &delta) {
  Type element = start.element;
  const double first = start.number(0), last = limit.number(0), step = delta.number(0);
  if (step == 0)
    return LogicalResult(node.error() << "has the step 0");
  const double steps = std::ceil((last - first) / step);
  if (!(steps <= double(Budget::kMostElements)))
    return LogicalResult(node.error() << "has too many elements, or bounds that are no numbers");
  const int64_t count = std::max(0.0, steps);
  if (fitsConstant(element, {count})) {
    auto result = std::make_shared<HostTensor>(element, Shape{count}, Shape{count});
    for (int64_t i = 0; i < count; ++i) {
      if (result->isFloat())
        result->floats[i] = roundTo(element, first + i * step);
      else
        result->ints[i] = int64_t(uint64_t(start.ints[0]) + uint64_t(i) * uint64_t(delta.ints[0]));
    }
    result->compress();
    return Tensor(result);
  }
  Emitter &emit = node.emit;
  Value index = graph::IotaOp::create(emit, RankedTensorType::get({count}, emit.getI64Type()), 0);
  index = castTo(emit, index, element);
  if (isa<FloatType>(element)) {
    index = arith::MulFOp::create(emit, index, splatLike(emit, index, step));
    return Tensor(arith::AddFOp::create(emit, index, splatLike(emit, index, first)).getResult());
  }
  if (step != 1)
    index = arith::MulIOp::create(emit, index, splatLike(emit, index, step));
  if (first != 0)
    index = arith::AddIOp::create(emit, index, splatLike(emit, index, first));
  return Tensor(index);
}

FailureOr<Tensor> triangle(Conversion &node, const Tensor &tensor, bool upper, int64_t diagonal) {
  const Shape shape = tensor.shape();
  const int64_t rank = shape.size();
  if (rank < 2)
    return LogicalResult(node.error() << "needs at least two dimensions");
  auto keeps = [&](int64_t row, int64_t column) {
    return upper ? column - row >= diagonal : column - row <= diagonal;
  };
  if (tensor.host) {
    const HostTensor &host = *tensor.host;
    Shape stored = host.stored;
    stored[rank - 2] = shape[rank - 2];
    stored[rank - 1] = shape[rank - 1];
    if (fitsConstant(host.element, stored)) {
      auto result = std::make_shared<HostTensor>(host.element, shape, stored);
      const Shape steps = host.strides();
      int64_t next = 0;
      forEachIndex(stored, [&](ArrayRef<int64_t> index) {
        const bool kept = keeps(index[rank - 2], index[rank - 1]);
        const int64_t from = dot(index, steps), to = next++;
        if (host.isFloat())
          result->floats[to] = kept ? host.floats[from] : 0;
        else
          result->ints[to] = kept ? host.ints[from] : 0;
      });
      result->compress();
      return Tensor(result);
    }
  }
  Emitter &emit = node.emit;
  Value value = node.value(tensor);
  auto indexType = RankedTensorType::get(shape, emit.getI64Type());
  Value row = graph::IotaOp::create(emit, indexType, rank - 2);
  Value column = graph::IotaOp::create(emit, indexType, rank - 1);
  if (diagonal != 0)
    row = arith::AddIOp::create(emit, row, splatLike(emit, row, diagonal));
  Value kept = arith::CmpIOp::create(
      emit, upper ? arith::CmpIPredicate::sge : arith::CmpIPredicate::sle, column, row);
  return Tensor(arith::SelectOp::create(emit, kept, value, splatLike(emit, value, 0)).getResult());
}

} // namespace dtc::import
