#include "Verifier.h"

#include "dtc/Plan/Plan/Blocks.h"
#include "dtc/Plan/Plan/ChangedBuffers.h"
#include "dtc/Plan/Plan/Flow.h"
#include "dtc/Plan/Plan/Spec.h"
#include "dtc/Sharding/Ring.h"

#include <algorithm>
#include <set>

namespace dtc::plan {

using sharding::TensorSharding;

void Verifier::checkDegrees() {
  const Degrees &degrees = plan.degrees;
  const std::pair<const char *, int64_t> positive[] = {
      {"dp", degrees.dp}, {"tp", degrees.tp}, {"pp", degrees.pp}, {"cp", degrees.cp},
      {"ep", degrees.ep}, {"chunks", degrees.chunks}, {"micro_batch", degrees.microBatch},
      {"num_microbatches", degrees.numMicrobatches}};
  for (auto [name, value] : positive)
    if (value < 1 || value > kMostDegree)
      report(std::string("degree is out of range: ") + name + "=" + std::to_string(value));
  if (!violations.empty())
    return;
  if (degrees.zero < 0 || degrees.zero > 3)
    report("zero must be 0 to 3: " + std::to_string(degrees.zero));
  if (degrees.zeroBlocks < 0 || (degrees.zeroBlocks > 0 && degrees.zero < 2))
    report("blocks can be stored by zero=2 or zero=3 where others aren't, not by zero=" +
           std::to_string(degrees.zero) + ": " + std::to_string(degrees.zeroBlocks));
  bool isUniform = degrees.groups.empty(); // else each group is asked
  if (degrees.zeroGroup < 0 ||
      (degrees.zeroGroup > 0 && isUniform && degrees.dp % degrees.zeroGroup != 0))
    report("zero_group doesn't divide dp=" + std::to_string(degrees.dp) + ": " +
           std::to_string(degrees.zeroGroup));
  if (degrees.numMicrobatches != problem.numMicrobatches)
    report("plan has another number of microbatches than the problem's " +
           std::to_string(problem.numMicrobatches) + ": " +
           std::to_string(degrees.numMicrobatches));
  if (degrees.dp >= 1 && problem.batch > 0 && degrees.dp * degrees.ep > 1 &&
      degrees.microBatch * degrees.dp * degrees.ep != problem.batch)
    report("micro_batch * dp * ep is not the batch of " + std::to_string(problem.batch) + ": " +
           std::to_string(degrees.microBatch * degrees.dp * degrees.ep));
  if (!isPermutation(degrees.order))
    report("order doesn't have each axis once: " + name(degrees.order));
  else if (std::string reason = whyNotPlaced(degrees, !cluster.others.empty()); !reason.empty())
    report(reason);
}

void Verifier::checkDeviceCount() {
  if (!violations.empty())
    return;
  int64_t needed = plan.degrees.devices(), devices = cluster.devices();
  if (devices > 0 && needed > devices)
    report("plan needs more devices than the cluster has: " + std::to_string(needed));
}

/// Of the one sharding of a plan.
void Verifier::checkModelSharding() {
  checkMesh();
  checkArguments();
  checkStorage();
  checkOps();
  // What follows looks values up in plans that are whole.
  if (violations.empty())
    checkFlow();
}

void Verifier::checkGroup(size_t group) {
  const Plan own = inGroup(plan, group);
  Verifier verifier(problem, own, cluster);
  verifier.checkDegrees();
  verifier.checkModelSharding();
  for (const Violation &violation : verifier.violations)
    report("stage group " + std::to_string(group) + ": " + violation.message, violation.op);
}

/// Groups are all pipeline ranks, and work on the same samples at once.
void Verifier::checkGroups() {
  const Degrees &degrees = plan.degrees;
  int64_t ranks = 0;
  if (plan.others.size() + 1 != groupCount(degrees))
    report("plan has " + std::to_string(groupCount(degrees)) + " stage groups, but layouts for " +
           std::to_string(plan.others.size() + 1));
  for (const StageGroup &group : degrees.groups) {
    for (int64_t value : {group.pp, group.dp, group.tp, group.microBatch})
      if (value < 1 || value > kMostDegree)
        return report("degree of a stage group is out of range: " + std::to_string(value));
    ranks += group.pp;
    if (group.dp * group.microBatch != degrees.dp * degrees.microBatch)
      report("stage groups differ in the samples of a microbatch, " +
             std::to_string(degrees.dp * degrees.microBatch) + " and " +
             std::to_string(group.dp * group.microBatch));
  }
  if (degrees.groups.empty())
    return;
  if (degrees.zeroBlocks > 0)
    report("stages with meshes of their own are stored by one level of ZeRO, the plan has "
           "zero_blocks=" + std::to_string(degrees.zeroBlocks));
  if (!agreesWithFirstGroup(degrees))
    report("the plan's dp, tp, sp and micro_batch aren't those of its first stage group");
  if (ranks != degrees.pp)
    report("stage groups have " + std::to_string(ranks) + " pipeline ranks, the plan's pp is " +
           std::to_string(degrees.pp));
}

void Verifier::checkAxes(const sharding::Mesh &mesh) {
  int64_t product = 1;
  for (const sharding::MeshAxis &axis : mesh.axes) {
    if (axis.size < 1 || axis.size > kMostDevices) {
      report("mesh axis " + axis.name + " has size " + std::to_string(axis.size));
      return;
    }
    product *= axis.size;
    if (product > kMostDevices)
      return report("mesh has too many devices: " + std::to_string(product));
  }
}

void Verifier::checkMesh() {
  std::set<std::string> names;
  for (const sharding::MeshAxis &axis : plan.mesh.axes) {
    if (axis.name.empty())
      report("an axis of the mesh has no name, that of degree: " + axis.degree);
    if (!names.insert(axis.name).second)
      report("two axes of the mesh have the name: " + axis.name);
    if (axis.degree != "dp" && axis.degree != "tp" && axis.degree != "cp" && axis.degree != "ep")
      report("mesh axis " + axis.name + " belongs to no degree of a stage: " + axis.degree);
  }
  const std::pair<const char *, int64_t> degrees[] = {{"dp", plan.degrees.dp},
                                                      {"tp", plan.degrees.tp},
                                                      {"cp", plan.degrees.cp},
                                                      {"ep", plan.degrees.ep}};
  for (auto [name, size] : degrees)
    if (int64_t inMesh = plan.mesh.size(plan.mesh.ofDegree(name)); inMesh != size)
      report(std::string("mesh has ") + name + "=" + std::to_string(inMesh) +
             ", the plan's degree is " + std::to_string(size));
  sharding::Mesh placed = plan.mesh;
  setStrides(placed, stridesOf(plan.degrees));
  for (size_t axis = 0; axis < placed.axes.size(); ++axis)
    if (auto id = static_cast<sharding::AxisId>(axis);
        placed.axes[axis].size > 1 && plan.mesh.stride(id) != placed.stride(id))
      report("mesh axis " + placed.axes[axis].name + " lies at strides of " +
             std::to_string(plan.mesh.stride(id)) + ", in the plan's order they are " +
             std::to_string(placed.stride(id)));
}

void Verifier::checkSchedule() {
  const Degrees &degrees = plan.degrees;
  schedule::ScheduleShape shape = scheduleShape(degrees);
  if (std::string reason = schedule::unsupported(shape); !reason.empty())
    return report("there is no such schedule: " + reason);
  if (!plan.stages.empty() && static_cast<int64_t>(plan.stages.size()) != shape.stages())
    report("plan must have pp * chunks = " + std::to_string(shape.stages()) + " stages, got " +
           std::to_string(plan.stages.size()));
}

/// Where stages differ each may lie anywhere, as it is priced: its ranks side by side.
void Verifier::checkNeighbours(const Stage &stage, const std::string &name) {
  for (size_t rank = 1; rank < stage.devices.size(); ++rank)
    if (int64_t next = stage.devices[0] + static_cast<int64_t>(rank); stage.devices[rank] != next)
      return report(name + " isn't on neighbouring devices: rank " + std::to_string(rank) +
                    " would be on " + std::to_string(next) + ", is on " +
                    std::to_string(stage.devices[rank]));
}

/// Each pipeline rank has devices of its own, which all its stages share.
void Verifier::checkDevices(size_t index, const std::optional<schedule::Placement> &placement,
                            std::set<int64_t> &taken) {
  const Stage &stage = plan.stages[index];
  std::string name = "stage " + std::to_string(index);
  // The first stages lie on a rank each.
  auto ranks = static_cast<size_t>(std::max<int64_t>(1, plan.degrees.pp));
  if (index >= ranks) {
    if (!placement)
      return;
    auto first = static_cast<size_t>(placement->rank(static_cast<int64_t>(index)));
    if (stage.devices != plan.stages[first].devices)
      report(name + " isn't on the devices of its rank's stage " + std::to_string(first));
    return;
  }
  int64_t expected = shardingOf(plan, groupOf(plan.degrees, int64_t(index))).mesh.devices();
  if (static_cast<int64_t>(stage.devices.size()) != expected)
    report(name + " names " + std::to_string(stage.devices.size()) + " devices, its mesh has " +
           std::to_string(expected));
  int64_t inCluster = cluster.devices();
  int64_t limit = inCluster > 0 ? inCluster : plan.degrees.devices();
  for (int64_t device : stage.devices)
    if (device < 0 || device >= limit || !taken.insert(device).second)
      report(name + " names a device that is taken or none: " + std::to_string(device));
  if (!violations.empty())
    return;
  if (!cluster.others.empty() || !plan.degrees.groups.empty())
    return checkNeighbours(stage, name);
  std::vector<int64_t> placed = devicesOf(plan.degrees, plan.mesh, static_cast<int64_t>(index));
  for (size_t rank = 0; rank < placed.size(); ++rank)
    if (stage.devices[rank] != placed[rank])
      return report(name + " has rank " + std::to_string(rank) + " on device " +
                    std::to_string(stage.devices[rank]) + ", order=" +
                    plan::name(plan.degrees.order) + " puts it on " +
                    std::to_string(placed[rank]));
}

void Verifier::checkStages() {
  std::set<int64_t> taken;
  std::optional<schedule::Placement> placement;
  schedule::ScheduleShape shape = scheduleShape(plan.degrees);
  if (schedule::unsupported(shape).empty() &&
      static_cast<int64_t>(plan.stages.size()) == shape.stages())
    placement = schedule::placementOf(shape);
  if (plan.stages.empty())
    report("plan has no stage");
  const std::vector<JoinedOps> joined =
      plan.stages.size() > 1 ? joinedOps(problem, facts()) : std::vector<JoinedOps>();
  int64_t next = 0, lastForward = 0;
  for (size_t op = 0; op < problem.ops.size(); ++op)
    if (!problem.ops[op].backward && problem.ops[op].kind != OpKind::GradientSum)
      lastForward = static_cast<int64_t>(op);
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage &stage = plan.stages[i];
    std::string name = "stage " + std::to_string(i);
    if (stage.firstOp != next || stage.lastOp < stage.firstOp || stage.lastOp > lastForward)
      report(name + " doesn't follow the one before: ops " + std::to_string(stage.firstOp) +
             " to " + std::to_string(stage.lastOp));
    if (const JoinedOps *apart = cutApart(joined, static_cast<OpId>(stage.firstOp)))
      report("one stage must have all that changes and reads " + apart->buffer +
             ", as where a batch norm is used several times: " + name + " cuts it apart");
    next = std::clamp<int64_t>(stage.lastOp, -1, lastForward) + 1;
    checkDevices(i, placement, taken);
  }
  for (int64_t op = next; op < static_cast<int64_t>(problem.ops.size()); ++op)
    if (!problem.ops[op].backward && problem.ops[op].kind != OpKind::GradientSum) {
      report("no stage runs the op " + problem.ops[op].name, static_cast<OpId>(op));
      break;
    }
}

void Verifier::checkArguments() {
  for (const auto &[value, sharding] : plan.arguments)
    if (value < 0 || value >= problem.arguments)
      report("plan lays out a value that is no argument: " + std::to_string(value));
  for (ValueId value = 0; value < problem.arguments; ++value) {
    const Value &argument = problem.values[value];
    std::string name = "argument '" + argument.name + "' (" + std::to_string(value) + ")";
    auto it = plan.arguments.find(value);
    if (it == plan.arguments.end()) {
      report("plan has no layout for " + name);
      continue;
    }
    if (std::string error = it->second.check(argument.shape, plan.mesh); !error.empty())
      report(name + ": " + error);
    else if (!it->second.partial.empty() && argument.kind != ValueKind::Accumulator)
      report(name + " can't be a pending sum: " + it->second.str(plan.mesh));
    for (sharding::AxisId axis : plan.mesh.ofDegree("dp"))
      if (it->second.splits(axis) && (argument.kind == ValueKind::Parameter ||
                                      argument.kind == ValueKind::Buffer))
        report(name + " is split over dp, which only its storage may be: " +
               it->second.str(plan.mesh));
  }
}

/// Blocks are named once, by their number, and the degrees say what they add up to. All are of one
/// kind, or so many of it and the others of none.
void Verifier::checkRecompute() {
  const Degrees &degrees = plan.degrees;
  Recompute asked = degrees.recompute, most = Recompute::None;
  if (plan.recompute.empty() && asked == Recompute::None && degrees.recomputeBlocks == 0)
    return;
  auto count = static_cast<int64_t>(findBlocks(problem, facts()).size());
  int64_t recomputed = 0;
  for (const BlockRecompute &entry : plan.recompute) {
    most = std::max(most, entry.kind);
    recomputed += entry.kind != Recompute::None;
    if (entry.kind != Recompute::None && entry.kind != asked && asked != Recompute::None)
      report("block " + std::to_string(entry.block) + " isn't recomputed as the plan says: " +
             name(entry.kind));
  }
  if (most != asked && count > 0)
    report(std::string("plan says recompute=") + name(asked) + ", its blocks have " + name(most));
  int64_t expected = degrees.recomputeBlocks > 0   ? degrees.recomputeBlocks
                     : asked == Recompute::None ? 0
                                                : count;
  if (most == asked && recomputed != expected)
    report("plan says that " + std::to_string(expected) + " blocks are recomputed, it names " +
           std::to_string(recomputed));
  std::set<int64_t> seen;
  for (const BlockRecompute &entry : plan.recompute)
    if (entry.block < 0 || entry.block >= count)
      report("plan recomputes a block that the model lacks: " + std::to_string(entry.block));
    else if (!seen.insert(entry.block).second)
      report("plan recomputes a block twice: " + std::to_string(entry.block));
}

void Verifier::checkOps() {
  if (plan.ops.size() != problem.ops.size()) {
    report("plan shards " + std::to_string(plan.ops.size()) + " ops, the problem has " +
           std::to_string(problem.ops.size()));
    return;
  }
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    const Op &op = problem.ops[i];
    const sharding::OpSharding &choice = plan.ops[i];
    if (std::string error = sharding::check(op.rule, choice, plan.mesh); !error.empty()) {
      report(op.name + ": " + error, static_cast<OpId>(i));
      continue;
    }
    std::optional<sharding::Ring> ring = sharding::ringOf(op.rule, choice);
    for (size_t f = 0; f < choice.factors.size(); ++f)
      if (!choice.factors[f].empty() && op.keepRounds && !(ring && ring->travels == int(f)) &&
          op.rule->factors[f].kind == sharding::FactorKind::Rounds)
        report(op.name + " can't be split along a dimension that it reduces inside, factor " +
               std::to_string(f), static_cast<OpId>(i));
    checkGroupedExperts(static_cast<OpId>(i));
  }
}

/// Nobody else knows which rows are whose.
void Verifier::checkGroupedExperts(OpId id) {
  const Op &op = problem.ops[id];
  if (op.groupedExperts < 0)
    return;
  sharding::AxisList experts = plan.mesh.ofDegree("ep");
  for (sharding::AxisId axis : plan.ops[id].factors[op.groupedExperts])
    if (std::find(experts.begin(), experts.end(), axis) == experts.end())
      report(op.name + " has experts that only ep can split, axis " + plan.mesh.axes[axis].name,
             id);
}

/// Sequence parallelism is what the plan's normalizations do: tp splits them along
/// the sequence.
void Verifier::checkSequence(const ProblemFacts &facts) {
  bool splits = false;
  for (size_t id = 0; id < problem.ops.size(); ++id)
    for (sharding::FactorId factor : facts.sequenceFactors[id])
      for (sharding::AxisId axis : plan.ops[id].factors[factor])
        splits |= problem.ops[id].kind == OpKind::Normalization &&
                  plan.mesh.axes[axis].degree == "tp";
  if (splits != plan.degrees.sp)
    report(std::string("plan says sp=") + (plan.degrees.sp ? "on" : "off") +
           ", its normalizations are those of sp=" + (splits ? "on" : "off"));
}

/// Carries the plan out. Every value must be had as it is read, and a pending sum may leave only as
/// a gradient or the loss.
void Verifier::checkFlow() {
  checkSequence(facts());
  if (auto broken = findBrokenFlow(problem, facts(), plan))
    report(problem.ops[std::max<OpId>(broken->op, 0)].name + ": " + broken->message, broken->op);
}

std::vector<Violation> verify(const Problem &problem, const Plan &plan, const Cluster &cluster) {
  if (plan.degrees.cp > 1)
    return Verifier(withSplitSequence(problem, plan.degrees.cp), plan, cluster).run();
  return Verifier(problem, plan, cluster).run();
}

} // namespace dtc::plan
