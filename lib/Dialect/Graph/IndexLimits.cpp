#include "dtc/Dialect/Graph/Graph.h"

using namespace mlir;

namespace dtc::graph {
namespace {

/// What bounds the values of an integer tensor where it is used as an index. The targets of a loss
/// have more values than the classes, which the loss itself sees to. Those that are given as such
/// are bounded, too, as their ignored value is known.
std::optional<int64_t> limitOfUse(OpOperand &use, bool isTarget) {
  auto lastDim = [](Value value) { return shapeOf(value).back(); };
  return TypeSwitch<Operation *, std::optional<int64_t>>(use.getOwner())
      .Case([&](GatherOp op) -> std::optional<int64_t> {
        if (use.get() != op.getIndices())
          return std::nullopt;
        return shapeOf(op.getTable())[op.getAxis()];
      })
      .Case([&](PickOp op) -> std::optional<int64_t> {
        if (use.get() != op.getIndices())
          return std::nullopt;
        return lastDim(op.getInput());
      })
      .Case([&](GroupedContractOp op) -> std::optional<int64_t> {
        if (use.get() != op.getChoices())
          return std::nullopt;
        return op.getIndexSizes()[op.getExperts()];
      })
      .Case<CrossEntropyOp, CrossEntropyGradOp>(
          [&](auto op) -> std::optional<int64_t> {
            return isTarget ? std::optional(lastDim(op.getLogits())) : std::nullopt;
          })
      .Default([](Operation *) { return std::nullopt; });
}

/// The tightest bound among the uses of `value` and of what only moves or
/// converts its elements.
std::optional<int64_t> limitOf(Value value, bool isTarget) {
  std::optional<int64_t> limit;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    bool passesOn = (isa<ReshapeOp, TransposeOp, SliceOp, BroadcastOp, PadOp, DispatchOp, CombineOp,
                         arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(user) &&
                     use.getOperandNumber() == 0) ||
                    isa<ConcatOp>(user);
    std::optional<int64_t> found =
        passesOn ? limitOf(user->getResult(0), isTarget) : limitOfUse(use, isTarget);
    if (found)
      limit = limit ? std::min(*limit, *found) : *found;
  }
  return limit;
}

} // namespace

void annotateIndexLimits(func::FuncOp function) {
  if (function.isExternal())
    return;
  Builder builder(function.getContext());
  SmallVector<Attribute> limits(function.getNumArguments());
  for (BlockArgument argument : function.getArguments()) {
    unsigned number = argument.getArgNumber();
    RoleAttr role = getArgRole(function, number);
    bool isTarget = role && role.getKind() == RoleKind::Target;
    if (!isa<IntegerType>(getElementTypeOrSelf(argument.getType())))
      continue;
    std::optional<int64_t> limit = limitOf(argument, isTarget);
    auto known = function.getArgAttrOfType<IntegerAttr>(number, GraphDialect::kLimit);
    if (limit)
      limits[number] = builder.getI64IntegerAttr(known ? std::min(known.getInt(), *limit) : *limit);
  }
  setArgAttrs(function, GraphDialect::kLimit, limits);
}

} // namespace dtc::graph
