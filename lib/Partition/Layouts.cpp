// In which forms values are there, and how they get into another.
#include "Localizer.h"

using namespace mlir;
using namespace dtc::sharding;

namespace dtc::partition {

void Localizer::define(Value value, const Sharding *sharding, Value local) {
  layouts[value].push_back({sharding, local});
}

const Layout *Localizer::find(Value value, const Sharding &sharding) const {
  auto it = layouts.find(value);
  if (it == layouts.end())
    return nullptr;
  const auto *layout = llvm::find_if(
      it->second, [&](const Layout &layout) { return *layout.sharding == sharding; });
  return layout == it->second.end() ? nullptr : layout;
}

const Layout &Localizer::current(Value value) const {
  ArrayRef<Layout> all = layouts.find(value)->second;
  for (const Layout &layout : all)
    if (layout.sharding->partial.empty())
      return layout;
  return all.front();
}

bool Localizer::isPendingSum(Value value, AxisId axis) const {
  return llvm::any_of(layouts.find(value)->second, [&](const Layout &layout) {
    return llvm::is_contained(layout.sharding->partial,
                              Partial{axis, sharding::ReduceKind::Sum});
  });
}

FailureOr<Value> Localizer::fetch(OpBuilder &builder, Value value, const Sharding &target,
                                  Operation *user) {
  if (const Layout *layout = find(value, target))
    return layout->local;
  if (rebuild(builder, value, target))
    return find(value, target)->local;
  auto type = cast<RankedTensorType>(value.getType());
  std::optional<std::vector<ReshardStep>> best;
  Layout source;
  int64_t bestBytes = 0;
  for (const Layout &layout : layouts[value]) {
    auto steps = reshard(*layout.sharding, target, mesh.mesh);
    if (!steps)
      continue;
    int64_t bytes = communicatedBytes(*steps, *layout.sharding, type, mesh.mesh);
    if (best && bytes >= bestBytes)
      continue;
    best = std::move(steps);
    source = layout;
    bestBytes = bytes;
  }
  if (!best)
    return user->emitOpError("cannot take an operand that is there as ")
           << current(value).sharding->str(mesh.mesh) << " in the form "
           << target.str(mesh.mesh);
  for (const ReshardStep &step : *best) {
    Value local = emitStep(builder, value.getLoc(), mesh, type, source.local, *source.sharding,
                           step);
    source = {pool.keep(step.after), local};
    define(value, source.sharding, local);
  }
  return source.local;
}

//===----------------------------------------------------------------------===//
// Building values again
//===----------------------------------------------------------------------===//

static bool isSplat(Operation *op) {
  auto constant = dyn_cast<arith::ConstantOp>(op);
  return constant && isa<SplatElementsAttr>(constant.getValue());
}

/// Whether the op depends on no argument and costs next to nothing.
bool Localizer::isConstantExpression(Operation *op) {
  auto it = constantExpressions.find(op);
  if (it != constantExpressions.end())
    return it->second;
  bool result = isSplat(op) || isa<graph::IotaOp>(op);
  if (graph::isElementwise(op) || isa<graph::BroadcastOp>(op))
    result = op->getNumOperands() > 0 && llvm::all_of(op->getOperands(), [&](Value operand) {
      return isa<RankedTensorType>(operand.getType()) && operand.getDefiningOp() &&
             isConstantExpression(operand.getDefiningOp());
    });
  constantExpressions[op] = result;
  return result;
}

/// Rather than a slice or a gather of a broadcast, a broadcast of the slice.
bool Localizer::isRebuildable(Operation *op) {
  return op && op->getNumResults() == 1 &&
         (isa<graph::BroadcastOp>(op) || isConstantExpression(op));
}

/// The choice under which the op's one result has the sharding `target`, as
/// far as there is one.
static OpSharding choiceFor(const ShardingRule &rule, const TensorSharding &target,
                            const Mesh &mesh) {
  ShardingRule backwards = rule;
  std::swap(backwards.operands, backwards.results);
  backwards.linear.clear();
  return follow(backwards, {target}, {1}, mesh, /*allowRounds=*/false);
}

bool Localizer::rebuild(OpBuilder &builder, Value value, const Sharding &target) {
  Operation *op = value.getDefiningOp();
  if (!isRebuildable(op))
    return false;
  FailureOr<OpClass *> alike = forms.classOf(op);
  if (failed(alike))
    return false;
  const ShardingRule &rule = (*alike)->rule;
  OpSharding choice = choiceFor(rule, target, mesh.mesh);
  return resultSharding(rule, choice, 0) == target &&
         succeeded(build(builder, op, rule, forms.formOf(**alike, op, choice)));
}

} // namespace dtc::partition
