#include "dtc/Import/Build/Windows.h"

#include "dtc-io/CheckedSize.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace dtc::import {

/// The coordinate, along one spatial dimension, of each window's k-th element. Of padding it is the
/// nearest one of the input: that is the first element where no element exceeds padding.
static Value coordinates(Conversion &node, const Window &window, size_t dim, int64_t k,
                         int64_t size, int64_t count) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t place = i * window.strides[dim] + k * window.dilations[dim] - window.low[dim];
    places.push_back(std::clamp<int64_t>(place, 0, size - 1));
  }
  return node.value(Tensor(HostTensor::ofInts(node.emit.getI64Type(), {count}, std::move(places))));
}

static Value addScaled(Emitter &emit, Value sum, Value term, int64_t factor) {
  term = arith::MulIOp::create(emit, term, splatLike(emit, term, factor));
  return sum ? arith::AddIOp::create(emit, sum, term).getResult() : term;
}

/// What the planes before each one take: [batch, channel, ...].
static Value planeOffsets(Emitter &emit, ArrayRef<int64_t> shape, int64_t plane) {
  auto type = RankedTensorType::get(shape, emit.getI64Type());
  Value offset = addScaled(emit, {}, graph::IotaOp::create(emit, type, 0), shape[1] * plane);
  return addScaled(emit, offset, graph::IotaOp::create(emit, type, 1), plane);
}

FailureOr<Tensor> maxPositions(Conversion &node, const Tensor &input, const Tensor &pooled,
                               Window window, bool ceilMode, bool columnsFirst) {
  Emitter &emit = node.emit;
  const Shape from = input.shape();
  const auto sizes = ArrayRef(from).drop_front(2);
  const Shape outs = countWindows(window, sizes, ceilMode);
  Shape shape(ArrayRef(from).take_front(2)), low(2, 0), high(2, 0), scales(sizes.size(), 1);
  shape.append(outs);
  low.append(window.low);
  high.append(window.high);
  for (size_t i = sizes.size(); i-- > 1 && !columnsFirst;)
    scales[i - 1] = scales[i] * sizes[i];
  for (size_t i = 1; i < sizes.size() && columnsFirst; ++i)
    scales[i] = scales[i - 1] * sizes[i - 1];
  const io::CheckedSize elements = io::CheckedSize::product(window.kernel) * int64_t(32);
  if (failed(node.chargeNodes(elements ? *elements : INT64_MAX)))
    return failure();
  for (int64_t count : outs)
    if (!fitsConstant(emit.getI64Type(), {count}))
      return LogicalResult(node.error() << "has too many windows for positions: " << count);
  Value x = pad(emit, node.value(input), low, high, -std::numeric_limits<double>::infinity());
  Value maximum = node.value(pooled), where;
  std::vector<Shape> taps;
  forEachIndex(window.kernel, [&](ArrayRef<int64_t> k) { taps.emplace_back(k); });
  for (const Shape &k : llvm::reverse(taps)) { // so that the first one stands at last
    Value element = x, place;
    for (size_t i = 0; i < k.size(); ++i) {
      element =
          sliceDim(emit, element, i + 2, k[i] * window.dilations[i], outs[i], window.strides[i]);
      Value along = coordinates(node, window, i, k[i], sizes[i], outs[i]);
      along = broadcastAlong(emit, along, shape, {int64_t(i) + 2});
      place = addScaled(emit, place, along, scales[i]);
    }
    Value isMaximum = arith::CmpFOp::create(emit, arith::CmpFPredicate::OEQ, element, maximum);
    Value isNaN = arith::CmpFOp::create(emit, arith::CmpFPredicate::UNO, element, element);
    Value stands = arith::OrIOp::create(emit, isMaximum, isNaN);
    where = where ? arith::SelectOp::create(emit, stands, place, where).getResult() : place;
  }
  Value offsets = planeOffsets(emit, shape, product(sizes));
  return Tensor(arith::AddIOp::create(emit, where, offsets).getResult());
}

} // namespace dtc::import
