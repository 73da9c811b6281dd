#include "dtc/Dialect/Graph/Graph.h"
#include "dtc/Raise/Passes.h"

using namespace mlir;

namespace dtc::raise {

#define GEN_PASS_DEF_EVENPADDING
#include "dtc/Raise/Passes.h.inc"

/// By how much one end of each dimension is padded more than the other.
static SmallVector<int64_t> excess(ArrayRef<int64_t> padding, ArrayRef<int64_t> other) {
  SmallVector<int64_t> result(2, 0); // samples and channels
  for (auto [mine, theirs] : llvm::zip_equal(padding, other))
    result.push_back(std::max<int64_t>(mine - theirs, 0));
  return result;
}

/// The padding by zeros that makes `value` and that nothing else reads; null if there is none.
static graph::PadOp zerosAround(Value value) {
  auto pad = value.getDefiningOp<graph::PadOp>();
  return pad && value.hasOneUse() && pad.getValue().isZero() ? pad : graph::PadOp();
}

/// `input` with so many more zeros at the ends. Those that it has already are made with them.
static Value padded(OpBuilder &builder, Location loc, Value input, ArrayRef<int64_t> low,
                    ArrayRef<int64_t> high) {
  auto type = cast<RankedTensorType>(input.getType());
  SmallVector<int64_t> shape, lows(low), interiors(low.size(), 0);
  for (auto [size, before, after] : llvm::zip_equal(type.getShape(), low, high))
    shape.push_back(size + before + after);
  if (graph::PadOp inner = zerosAround(input)) {
    input = inner.getInput();
    interiors.assign(inner.getInterior().begin(), inner.getInterior().end());
    for (auto [sum, more] : llvm::zip_equal(lows, inner.getLow()))
      sum += more;
  }
  return graph::PadOp::create(builder, loc, type.clone(shape), input, lows, interiors,
                              APFloat(0.0));
}

static void padEvenly(graph::ConvOp conv) {
  SmallVector<int64_t> low = excess(conv.getPadLow(), conv.getPadHigh()),
                       high = excess(conv.getPadHigh(), conv.getPadLow()), even;
  for (auto [before, after] : llvm::zip_equal(conv.getPadLow(), conv.getPadHigh()))
    even.push_back(std::min(before, after));
  if (low == high) // there is none at either end
    return;
  OpBuilder builder(conv);
  Value input = conv.getInput();
  conv.getInputMutable().set(padded(builder, conv.getLoc(), input, low, high));
  conv.setPadLow(even);
  conv.setPadHigh(even);
  if (auto unread = input.getDefiningOp<graph::PadOp>(); unread && unread->use_empty())
    unread.erase();
}

namespace {
struct EvenPadding : impl::EvenPaddingBase<EvenPadding> {
  using EvenPaddingBase::EvenPaddingBase;

  void runOnOperation() override { getOperation()->walk(padEvenly); }
};
} // namespace

} // namespace dtc::raise
