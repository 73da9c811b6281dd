// In which forms values are there, and how they get into another.
#include "Localizer.h"

using namespace mlir;
using namespace dtc::sharding;

namespace dtc::partition {

void Localizer::define(Value value, const Sharding *sharding, Value local, bool gathered) {
  shards[value].push_back({sharding, local, gathered});
}

const LocalShard *Localizer::find(Value value, const Sharding &sharding) const {
  auto it = shards.find(value);
  if (it == shards.end())
    return nullptr;
  const LocalShard *found = nullptr;
  for (const LocalShard &shard : it->second)
    if (*shard.sharding == sharding && (!found || found->gathered))
      found = &shard;
  return found;
}

const LocalShard &Localizer::current(Value value) const {
  ArrayRef<LocalShard> all = shards.find(value)->second;
  for (const LocalShard &shard : all)
    if (shard.sharding->partial.empty())
      return shard;
  return all.front();
}

bool Localizer::isPendingSum(Value value, AxisId axis) const {
  return llvm::any_of(shards.find(value)->second, [&](const LocalShard &shard) {
    return llvm::is_contained(shard.sharding->partial, Partial{axis, sharding::ReduceKind::Sum});
  });
}

std::optional<Localizer::Way> Localizer::cheapestWay(Value value, const Sharding &target,
                                                     bool again) const {
  auto type = cast<RankedTensorType>(value.getType());
  std::optional<Way> best;
  int64_t bestBytes = 0;
  for (const LocalShard &shard : shards.find(value)->second) {
    auto steps = reshard(*shard.sharding, target, mesh.mesh);
    if (!steps || (again && shard.gathered))
      continue;
    int64_t bytes = communicatedBytes(*steps, *shard.sharding, type, mesh.mesh);
    if (best && bytes >= bestBytes)
      continue;
    best = {shard, std::move(*steps)};
    bestBytes = bytes;
  }
  return best;
}

/// What is computed again stands for the forward pass.
static bool isBackward(Operation *op) {
  auto mark = op->getAttrOfType<graph::BackwardAttr>(graph::GraphDialect::kBackward);
  return mark && mark.getKind() != graph::BackwardKind::Recompute;
}

FailureOr<Value> Localizer::fetch(OpBuilder &builder, Value value, const Sharding &target,
                                  Operation *user) {
  bool again = regather && isBackward(user);
  const LocalShard *known = find(value, target);
  if (known && !(again && known->gathered))
    return known->local;
  if (!known && rebuild(builder, value, target))
    return find(value, target)->local;
  std::optional<Way> way = cheapestWay(value, target, again);
  if (!way)
    return user->emitOpError("cannot take an operand that is there as ")
           << current(value).sharding->str(mesh.mesh) << " in the form " << target.str(mesh.mesh);
  LocalShard source = way->from;
  if (known) // nobody shall find that this was gathered before
    source.local =
        graph::BarrierOp::create(builder, value.getLoc(), source.local.getType(), source.local);
  auto type = cast<RankedTensorType>(value.getType());
  for (const ReshardStep &step : way->steps) {
    FailureOr<Value> local =
        emitStep(builder, value.getLoc(), mesh, type, source.local, *source.sharding, step);
    if (failed(local))
      return failure();
    bool gathered = source.gathered || (step.kind == StepKind::AllGather && !isBackward(user));
    source = {pool.keep(step.after), *local, gathered};
    define(value, source.sharding, *local, gathered);
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
