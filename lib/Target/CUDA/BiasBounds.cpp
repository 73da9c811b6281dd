#include "BiasBounds.h"

#include "dtc/Dialect/Graph/Graph.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

using namespace mlir;

namespace dtc::cuda {

/// What a mask is computed by is short.
static constexpr int kDeepest = 16;

/// The largest magnitude of all elements; none where one is no number.
static std::optional<double> constantBound(arith::ConstantOp op) {
  auto elements = dyn_cast<DenseFPElementsAttr>(op.getValue());
  if (!elements)
    return std::nullopt;
  if (elements.isSplat())
    return std::abs(elements.getSplatValue<APFloat>().convertToDouble());
  double bound = 0;
  for (APFloat value : elements) {
    if (!value.isFinite())
      return std::nullopt;
    bound = std::max(bound, std::abs(value.convertToDouble()));
  }
  return bound;
}

static std::optional<double> boundOf(Value value, int depth);

/// Of an op with finite operands, before it is rounded to its type.
static std::optional<double> exactBoundOf(Operation *op, int depth) {
  auto ofBoth = [&](unsigned a, unsigned b, auto combine) -> std::optional<double> {
    std::optional<double> left = boundOf(op->getOperand(a), depth), right;
    if (left)
      right = boundOf(op->getOperand(b), depth);
    return right ? std::optional<double>(combine(*left, *right)) : std::nullopt;
  };
  auto larger = [](double a, double b) { return std::max(a, b); };
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return constantBound(constant);
  if (isa<graph::BroadcastOp, graph::ReshapeOp, graph::TransposeOp, graph::SliceOp,
          graph::BarrierOp, arith::ExtFOp, arith::TruncFOp, arith::NegFOp>(op))
    return boundOf(op->getOperand(0), depth);
  if (isa<arith::SelectOp>(op))
    return ofBoth(1, 2, larger);
  if (isa<arith::MaximumFOp, arith::MinimumFOp>(op))
    return ofBoth(0, 1, larger);
  if (isa<arith::AddFOp, arith::SubFOp>(op))
    return ofBoth(0, 1, std::plus<double>());
  if (isa<arith::MulFOp>(op))
    return ofBoth(0, 1, std::multiplies<double>());
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op))
    return std::ldexp(1.0, getElementTypeOrSelf(op->getOperand(0)).getIntOrFloatBitWidth());
  return std::nullopt;
}

/// The largest magnitude that a value can have, if that is known and its type has it.
static std::optional<double> boundOf(Value value, int depth) {
  auto type = dyn_cast<FloatType>(getElementTypeOrSelf(value));
  if (!type || !value.getDefiningOp() || depth == 0)
    return std::nullopt;
  std::optional<double> bound = exactBoundOf(value.getDefiningOp(), depth - 1);
  double largest = APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
  return bound && *bound <= largest ? bound : std::nullopt;
}

bool isCertainlyWithin(Value value, double most) {
  std::optional<double> bound = boundOf(value, kDeepest);
  return bound && *bound <= most;
}

} // namespace dtc::cuda
