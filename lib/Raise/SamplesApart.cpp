#include "dtc/Raise/SamplesApart.h"

#include "BatchTrace.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace dtc::raise {

static bool haveSameNumbers(Operation *op, Operation *other) {
  for (NamedAttribute attr : op->getAttrs())
    if (isa<FloatAttr>(attr.getValue()) && other->getAttr(attr.getName()) != attr.getValue())
      return false;
  DenseElementsAttr ours, theirs;
  if (!matchPattern(op, m_Constant(&ours)) || !matchPattern(other, m_Constant(&theirs)))
    return true;
  if (ours.isSplat() && theirs.isSplat())
    return ours.getSplatValue<Attribute>() == theirs.getSplatValue<Attribute>();
  auto both = llvm::zip(ours.getValues<Attribute>(), theirs.getValues<Attribute>());
  return llvm::all_of(both, [](auto pair) { return std::get<0>(pair) == std::get<1>(pair); });
}

LogicalResult checkBatchUncounted(func::FuncOp func, func::FuncOp other,
                                  ArrayRef<std::string> whole, std::string purpose,
                                  std::string advice) {
  BatchTrace trace(func, BatchTrace::Ends::Refused, std::move(purpose), std::move(advice));
  if (failed(trace.start(whole)) || failed(trace.propagate()))
    return failure();
  Block &ours = func.getBody().front(), &theirs = other.getBody().front();
  auto isAlike = [&](Operation &op, Operation &twin) {
    if (op.getName() != twin.getName())
      return false;
    auto hasBatch = [&](Value value) { return trace.placeIn(value).has_value(); };
    if (op.hasTrait<OpTrait::IsTerminator>() || llvm::any_of(op.getResults(), hasBatch))
      return haveSameNumbers(&op, &twin);
    return op.getAttrDictionary() == twin.getAttrDictionary() &&
           llvm::equal(op.getResultTypes(), twin.getResultTypes());
  };
  for (auto [op, twin] : llvm::zip(ours, theirs))
    if (!isAlike(op, twin))
      return trace.refuse(op.getLoc(), "the model computes with its size");
  return success();
}

LogicalResult checkSamplesApart(func::FuncOp func, ArrayRef<std::string> whole, std::string purpose,
                                std::string advice) {
  BatchTrace trace(func, BatchTrace::Ends::Refused, std::move(purpose), std::move(advice));
  if (failed(trace.start(whole)))
    return failure();
  auto norms = func.getOps<graph::BatchNormOp>();
  if (!norms.empty())
    return trace.refuse((*norms.begin())->getLoc(), "batch norm in training mode mixes samples");
  if (failed(trace.propagate()))
    return failure();
  for (Value output : func.getBody().front().getTerminator()->getOperands())
    if (auto place = trace.placeIn(output); place && !(*place == BatchPlace{0, 1, 1}))
      return trace.refuse(output.getLoc(), "an output hasn't the samples first");
  return success();
}

} // namespace dtc::raise
