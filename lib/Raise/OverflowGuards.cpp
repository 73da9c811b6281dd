#include "OverflowGuards.h"

#include "Reshapes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace dtc::raise {

/// Transformers clamps T5's and BART's residual stream to the largest number of f16 or, once a sum
/// has overflown, to 1000 less.
static constexpr double kLargestOfF16 = 65504, kMargin = 1000;

/// The least that elements made of constants are, times the sign; nothing where that is unknown.
static std::optional<double> leastOf(Value value, int sign) {
  if (auto splat = splatValue(value))
    return sign * *splat;
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<graph::BroadcastOp, graph::ReshapeOp>(op))
    return leastOf(op->getOperand(0), sign);
  if (isa_and_nonnull<arith::NegFOp>(op))
    return leastOf(op->getOperand(0), -sign);
  auto select = dyn_cast_or_null<arith::SelectOp>(op);
  auto then = select ? leastOf(select.getTrueValue(), sign) : std::nullopt;
  auto otherwise = select ? leastOf(select.getFalseValue(), sign) : std::nullopt;
  if (!then || !otherwise)
    return std::nullopt;
  return std::min(*then, *otherwise);
}

static bool isBoundOfF16(Value value, int sign) {
  auto least = leastOf(value, sign);
  return least && *least >= kLargestOfF16 - kMargin && *least <= kLargestOfF16;
}

/// What an op keeps within a bound of f16; null where it does something else.
static Value guarded(Operation *op) {
  if (isa<arith::MinimumFOp, arith::MaximumFOp>(op)) {
    const int sign = isa<arith::MinimumFOp>(op) ? 1 : -1;
    for (unsigned i : {0, 1})
      if (isBoundOfF16(op->getOperand(i), sign))
        return op->getOperand(1 - i);
    return {};
  }
  // The bound where x isn't within it, else x.
  auto select = dyn_cast<arith::SelectOp>(op);
  auto meets = select ? select.getCondition().getDefiningOp<arith::CmpFOp>() : nullptr;
  if (!meets || meets.getLhs() != select.getFalseValue() || meets.getRhs() != select.getTrueValue())
    return {};
  const bool isMost = meets.getPredicate() == arith::CmpFPredicate::OGE;
  if (!isMost && meets.getPredicate() != arith::CmpFPredicate::OLE)
    return {};
  return isBoundOfF16(meets.getRhs(), isMost ? 1 : -1) ? select.getFalseValue() : Value();
}

void dropOverflowGuards(func::FuncOp func) {
  func.walk([](Operation *op) {
    if (Value inner = guarded(op))
      op->getResult(0).replaceAllUsesWith(inner);
  });
  // The bounds ask whether any element is infinite, which mixes samples.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(func.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

} // namespace dtc::raise
