// Sums: terms under one sharding are added before they are resharded, so that terms
// pending over the same axes take one reduction together.
#include "Localizer.h"

using namespace mlir;
using namespace dtc::sharding;

namespace dtc::partition {

namespace {
/// Terms grouped by sharding, in order of first appearance.
class Terms {
public:
  void add(const TensorSharding &sharding, Value local) {
    for (AlikeTerms &group : groups)
      if (group.sharding == sharding)
        return group.locals.push_back(local);
    groups.push_back({sharding, {local}});
  }

  struct AlikeTerms {
    TensorSharding sharding;
    SmallVector<Value> locals;
    Value total(OpBuilder &builder, Location loc) const {
      if (locals.size() == 1)
        return locals.front();
      return graph::SumOp::create(builder, loc, locals.front().getType(), locals);
    }
  };
  std::vector<AlikeTerms> groups;
};
} // namespace

/// The sharding in which terms under `from` wait for others before they go to `target`. It is cut
/// as the target is where that is free, and pending as they are.
static TensorSharding meetingPoint(const TensorSharding &from, const TensorSharding &target,
                                   const Mesh &mesh) {
  TensorSharding meeting{target.dims, from.partial};
  for (const Partial &partial : from.partial)
    if (meeting.splits(partial.axis))
      return from;
  auto steps = reshard(from, meeting, mesh);
  bool free = steps && llvm::all_of(*steps, [](const ReshardStep &step) {
    return step.kind == StepKind::Slice;
  });
  return free ? meeting : from;
}

static Value reshardLocal(OpBuilder &builder, Location loc, const NamedMesh &mesh,
                          RankedTensorType type, TensorSharding from, Value local,
                          const TensorSharding &to) {
  auto steps = reshard(from, to, mesh.mesh);
  if (!steps)
    return {};
  for (const ReshardStep &step : *steps) {
    FailureOr<Value> next = emitStep(builder, loc, mesh, type, local, from, step);
    if (failed(next))
      return {};
    local = *next;
    from = step.after;
  }
  return local;
}

/// The shard from which a term sets out. It is the one that ops follow, unless the term is there as
/// wanted, or only another one still pends as the target does.
const LocalShard &Localizer::source(Value term, const Sharding &target) const {
  if (const LocalShard *ready = find(term, target))
    return *ready;
  const LocalShard &usual = current(term);
  if (reshard(*usual.sharding, target, mesh.mesh))
    return usual;
  for (const LocalShard &shard : shards.find(term)->second)
    if (reshard(*shard.sharding, target, mesh.mesh))
      return shard;
  return usual;
}

LogicalResult Localizer::buildSum(OpBuilder &builder, graph::SumOp op, const Sharding &target) {
  Terms terms, meeting, last;
  for (Value input : op.getInputs()) {
    const LocalShard &shard = source(input, target);
    terms.add(*shard.sharding, shard.local);
  }
  auto type = cast<RankedTensorType>(op.getType());
  auto move = [&](const Terms &from, Terms &to, auto destination) -> LogicalResult {
    for (const Terms::AlikeTerms &group : from.groups) {
      TensorSharding next = destination(group.sharding);
      Value local = reshardLocal(builder, op.getLoc(), mesh, type, group.sharding,
                                 group.total(builder, op.getLoc()), next);
      if (!local)
        return op.emitOpError("cannot bring a term that is there as ")
               << group.sharding.str(mesh.mesh) << " into the form " << next.str(mesh.mesh);
      to.add(next, local);
    }
    return success();
  };
  if (failed(move(terms, meeting, [&](const TensorSharding &from) {
        return meetingPoint(from, target, mesh.mesh);
      })) ||
      failed(move(meeting, last, [&](const TensorSharding &) { return target; })))
    return failure();
  define(op.getResult(), pool.keep(target), last.groups.front().total(builder, op.getLoc()));
  return success();
}

/// Adds to what earlier microbatches gave. The accumulator, an argument, takes
/// the sharding of what is added, with all its sums pending, in the dimensions
/// that its dist.sharding asks for.
LogicalResult Localizer::buildAccumulation(OpBuilder &builder, graph::SumOp op,
                                           BlockArgument accumulator) {
  SmallVector<Value> terms;
  Value argument;
  std::optional<TensorSharding> target;
  for (Value input : op.getInputs()) {
    if (accumulators.contains(input)) {
      if (argument)
        return op.emitOpError("cannot add two accumulators");
      argument = input;
      continue;
    }
    const TensorSharding &sharding = *shards.find(input)->second.front().sharding;
    if (!target)
      target = sharding;
    else if (*target != sharding)
      target->partial.clear(); // of several terms under different shardings none stays pending
    terms.push_back(input);
  }
  if (!target)
    return op.emitOpError("must add something to the accumulator");
  unsigned index = cast<BlockArgument>(argument).getArgNumber();
  if (const TensorSharding *wanted = argumentShardings[index]) {
    target->dims = wanted->dims;
    if (!wanted->partial.empty())
      llvm::erase_if(target->partial, [&](const Partial &p) { return !wanted->isPartial(p.axis); });
  }
  llvm::erase_if(target->partial, [&](const Partial &p) { return target->splits(p.axis); });

  SmallVector<Value> locals;
  for (Value term : terms) {
    FailureOr<Value> local = fetch(builder, term, *target, op);
    if (failed(local))
      return failure();
    locals.push_back(*local);
  }
  Type type = localType(cast<RankedTensorType>(op.getType()), *target, mesh.mesh);
  accumulator.setType(type);
  const TensorSharding *kept = argumentShardings[index] = pool.keep(*target);
  define(argument, kept, accumulator);
  locals.insert(locals.begin(), accumulator);
  define(op.getResult(), kept, graph::SumOp::create(builder, op.getLoc(), type, locals));
  return success();
}

} // namespace dtc::partition
