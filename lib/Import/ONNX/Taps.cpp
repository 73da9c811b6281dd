#include "Taps.h"

#include "dtc/Dialect/Graph/TensorBuilder.h"

using namespace mlir;

namespace dtc::import {

using namespace raise;
using graph::TensorBuilder;

std::vector<Tap> linearTaps(Emitter &emit, Value place, int64_t size) {
  TensorBuilder b(emit, emit.getLoc());
  Value low = b.unary<math::FloorOp>(place), share = b.sub(place, low);
  const double last = double(size - 1);
  auto tapAt = [&](Value at, Value weight) -> Tap {
    Value inside = arith::AndIOp::create(emit, b.compare(arith::CmpFPredicate::OGE, at, 0.0),
                                         b.compare(arith::CmpFPredicate::OLE, at, last));
    Value clipped = b.minimum(b.maximum(at, b.constantLike(at, 0)), b.constantLike(at, last));
    return {castTo(emit, clipped, emit.getI64Type()), b.selectOr(inside, weight, 0.0)};
  };
  return {tapAt(low, b.sub(b.constantLike(share, 1), share)), tapAt(b.offset(low, 1), share)};
}

Tap mergeTaps(Emitter &emit, const Tap &outer, const Tap &inner, int64_t size) {
  Value index =
      arith::MulIOp::create(emit, outer.index, splatLike(emit, outer.index, double(size)));
  return {arith::AddIOp::create(emit, index, inner.index),
          arith::MulFOp::create(emit, outer.weight, inner.weight)};
}

std::vector<Tap> mergeTaps(Emitter &emit, ArrayRef<Tap> outer, ArrayRef<Tap> inner, int64_t size) {
  std::vector<Tap> both;
  for (const Tap &first : outer)
    for (const Tap &second : inner)
      both.push_back(mergeTaps(emit, first, second, size));
  return both;
}

Value takeTap(Emitter &emit, Value rows, const Tap &tap) {
  auto shape = tensorType(rows).getShape();
  const Shape all = {shape[0], shape[1], tensorType(tap.index).getDimSize(1)};
  Value found = pickEach(emit, rows, broadcastAlong(emit, tap.index, all, {0, 2}));
  return arith::MulFOp::create(emit, found, broadcastAlong(emit, tap.weight, all, {0, 2}));
}

Value sumTaps(Emitter &emit, Value rows, ArrayRef<Tap> taps) {
  Value sum;
  for (const Tap &tap : taps) {
    Value term = takeTap(emit, rows, tap);
    sum = sum ? arith::AddFOp::create(emit, sum, term).getResult() : term;
  }
  return sum;
}

} // namespace dtc::import
