#include "StepGraph.h"

#include "StageFunction.h"

#include "dtc/Dialect/Graph/StepFunctions.h"
#include "dtc/Dialect/Graph/StepOps.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::stages {

FailureOr<StepGraph> StepGraph::build(ModuleOp module) {
  StepGraph step;
  if (failed(step.findFunctions(module)) || failed(step.findRanks()) || failed(step.findStages()) ||
      failed(step.findReturned()) || failed(step.findCrossings()))
    return failure();
  return step;
}

LogicalResult StepGraph::findFunctions(ModuleOp module) {
  auto meshes = module.getOps<dist::MeshOp>();
  if (!llvm::hasSingleElement(meshes))
    return module.emitError("needs one dist.mesh to be cut into stages, has: ")
           << std::distance(meshes.begin(), meshes.end());
  meshOp = *meshes.begin();
  mesh = dist::toMesh(meshOp);
  SmallVector<std::pair<func::FuncOp *, StringRef>> wanted = {{&joint, kForward}};
  if (findFunction(module, kLossAndGrads))
    wanted = {{&joint, kLossAndGrads}, {&prologue, kPrologue}, {&update, kUpdate}};
  for (auto [function, name] : wanted) {
    *function = findFunction(module, name);
    if (!*function || !function->getBody().hasOneBlock())
      return module.emitError("needs a function of one block to be cut into stages: ") << name;
  }
  return success();
}

/// Stages of the same devices are chunks of one rank.
LogicalResult StepGraph::findRanks() {
  auto devices = meshOp->getAttrOfType<ArrayAttr>(dist::DistDialect::kDevices);
  if (!devices)
    return meshOp.emitError("says of no stages: ") << dist::DistDialect::kDevices;
  DenseMap<Attribute, int> known;
  SmallVector<int> chunks;
  for (Attribute stage : devices) {
    auto [rank, isNew] = known.try_emplace(stage, ranks);
    if (isNew) {
      ++ranks;
      chunks.push_back(0);
    }
    rankByStage.push_back(rank->second);
    chunkByStage.push_back(chunks[rank->second]++);
  }
  activations.resize(devices.size());
  gradients.resize(devices.size());
  return success();
}

LogicalResult StepGraph::findStages() {
  for (Operation &op : joint.front().without_terminator()) {
    auto stage = op.getAttrOfType<IntegerAttr>(dist::DistDialect::kStage);
    if (stage && stage.getInt() >= numStages())
      return op.emitOpError("belongs to a stage that the mesh doesn't have: ") << stage.getInt();
    stages[&op] = stage ? static_cast<int>(stage.getInt()) : kAnyStage;
    for (Value operand : op.getOperands())
      if (Operation *producer = operand.getDefiningOp(); !stage && producer)
        if (stages.lookup(producer) >= 0)
          return op.emitOpError("belongs to no stage, but reads what one makes");
  }
  return success();
}

static bool isAccumulation(SumOp sum) {
  auto backward = sum->getAttrOfType<BackwardAttr>(GraphDialect::kBackward);
  return backward && backward.getKind() == BackwardKind::Accumulate;
}

void StepGraph::collectTerms(Value value, ReturnedSum &into) {
  if (auto sum = value.getDefiningOp<SumOp>(); sum && value.hasOneUse() && isAccumulation(sum)) {
    into.sums.push_back(sum);
    for (Value input : sum.getInputs())
      collectTerms(input, into);
    return;
  }
  auto argument = dyn_cast<BlockArgument>(value);
  if (argument && getArgRole(joint, argument.getArgNumber()) == into.role)
    into.accumulator = argument;
  else
    into.terms.push_back(value);
}

static bool mayReturn(RoleAttr role, bool trains) {
  if (!role)
    return false;
  if (!trains)
    return role.getKind() == RoleKind::Output;
  return isSummedUp(role) || role.getKind() == RoleKind::Buffer;
}

/// Who reads a buffer elsewhere than in a stage's forward pass; null where nobody does.
static Operation *readerElsewhere(func::FuncOp joint, RoleAttr buffer, int stage,
                                  llvm::function_ref<std::optional<int>(Operation *)> stageOf) {
  SmallVector<Value> read;
  for (BlockArgument argument : joint.getArguments())
    if (getArgRole(joint, argument.getArgNumber()) == buffer)
      read.push_back(argument);
  while (!read.empty())
    for (Operation *user : read.pop_back_val().getUsers()) {
      std::optional<int> own = stageOf(user);
      if (own == kAnyStage)
        read.append(user->result_begin(), user->result_end());
      else if (own != stage || user->hasAttr(GraphDialect::kBackward))
        return user;
    }
  return nullptr;
}

/// Makes what is computed from buffers alone a part of the first stage, with all that reads it.
void StepGraph::placeFirst(Operation *op) {
  stages[op] = 0;
  for (Operation *user : op->getUsers())
    if (auto known = stages.find(user); known != stages.end() && known->second < 0)
      placeFirst(user);
}

/// What is computed from buffers alone becomes a part of the first stage where it replaces one.
/// Whoever reads a buffer that is replaced must do so in that stage's forward pass: elsewhere it
/// would be another microbatch's.
LogicalResult StepGraph::placeChange(Value value, RoleAttr role) {
  Operation *producer = value.getDefiningOp();
  if (producer && stages.lookup(producer) < 0)
    placeFirst(producer);
  auto stageOf = [&](Operation *op) -> std::optional<int> {
    auto known = stages.find(op);
    return known == stages.end() ? std::nullopt : std::optional(known->second);
  };
  const int stage = producer ? stages.lookup(producer) : kAnyStage;
  if (Operation *reader = readerElsewhere(joint, role, stage, stageOf))
    return reader->emitOpError("can't be cut into stages, reads elsewhere what changes: ")
           << role.getName();
  return success();
}

/// An output that is an argument, or made of buffers alone, is the first stage's.
FailureOr<int> StepGraph::stageOfTerm(Value term, RoleAttr role) {
  Operation *producer = term.getDefiningOp();
  if (producer && stages.lookup(producer) >= 0)
    return stages.lookup(producer);
  if (role.getKind() != RoleKind::Output)
    return joint.emitOpError("no stage makes a term of ") << role;
  if (producer)
    placeFirst(producer);
  return 0;
}

LogicalResult StepGraph::findReturned() {
  for (auto [i, value] : llvm::enumerate(joint.front().getTerminator()->getOperands())) {
    ReturnedSum sum;
    sum.role = getResultRole(joint, i);
    sum.index = i;
    if (!mayReturn(sum.role, trains()))
      return joint.emitOpError("can't be cut into stages, returns something else than its stages: ")
             << i;
    if (isSummedUp(sum.role))
      collectTerms(value, sum);
    else
      sum.terms.push_back(value);
    if (sum.role.getKind() == RoleKind::Buffer && failed(placeChange(value, sum.role)))
      return failure();
    for (Value term : sum.terms) {
      FailureOr<int> stage = stageOfTerm(term, sum.role);
      if (failed(stage))
        return failure();
      if (!llvm::is_contained(sum.stages, *stage))
        sum.stages.push_back(*stage);
    }
    llvm::sort(sum.stages);
    if (sum.isTied() && sum.role.getKind() != RoleKind::Gradient)
      return joint.emitOpError("several stages make terms of ") << sum.role;
    for (SumOp op : sum.sums)
      if (sum.isTied())
        stages.erase(op);
      else
        stages[op] = sum.stages.front();
    returned.push_back(std::move(sum));
  }
  return success();
}

RoleAttr StepGraph::termRole(RoleAttr sum, ArrayRef<int> stages, int stage) const {
  auto first = llvm::find_if(stages, [&](int other) { return rankOf(other) == rankOf(stage); });
  return *first == stage ? sum : gradientOfChunk(sum, chunkOf(stage));
}

LogicalResult StepGraph::findCrossing(OpResult value, int stage, bool isForward) {
  int last = stage, first = stage;
  for (Operation *user : value.getUsers()) {
    auto reader = stages.find(user);
    if (reader == stages.end())
      continue; // the return, or a sum to which each stage adds its own terms
    last = std::max(last, reader->second);
    first = std::min(first, reader->second);
  }
  if (last > stage && !isForward)
    return value.getOwner()->emitOpError("makes in the backward pass what a later stage needs: ")
           << last;
  for (int to = stage + 1; to <= last; ++to)
    activations[to].push_back(value);
  for (int to = stage - 1; to >= first; --to)
    gradients[to].push_back(value);
  return success();
}

LogicalResult StepGraph::findCrossings() {
  for (Operation &op : joint.front().without_terminator()) {
    auto stage = stages.find(&op);
    if (stage == stages.end() || stage->second < 0)
      continue;
    for (OpResult value : op.getResults())
      if (failed(findCrossing(value, stage->second, op.hasAttr(GraphDialect::kId))))
        return failure();
  }
  return success();
}

SmallVector<Operation *> StepGraph::opsOf(int stage) const {
  DenseSet<Operation *> needed;
  SmallVector<Operation *> result;
  for (Operation &op : llvm::reverse(getJoint().front())) {
    auto known = stages.find(&op);
    if (known == stages.end())
      continue;
    bool isRead =
        known->second < 0 &&
        llvm::any_of(op.getUsers(), [&](Operation *user) { return needed.contains(user); });
    if (known->second != stage && !isRead)
      continue;
    needed.insert(&op);
    result.push_back(&op);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

ArrayRef<int64_t> StepGraph::devicesOf(int stage) const {
  auto devices = meshOp->getAttrOfType<ArrayAttr>(dist::DistDialect::kDevices);
  return cast<DenseI64ArrayAttr>(devices[stage]).asArrayRef();
}

FailureOr<sharding::TensorSharding> StepGraph::shardingOf(Value value) const {
  Operation *op = value.getDefiningOp();
  auto planned = op->getAttrOfType<dist::OpShardingAttr>(dist::DistDialect::kOp);
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  std::optional<sharding::OpSharding> choice =
      planned ? dist::toOpSharding(planned, mesh) : std::nullopt;
  if (!ruled || !choice)
    return op->emitOpError("makes what another stage needs, in a layout that isn't planned");
  sharding::TensorSharding sharding = sharding::resultSharding(
      ruled.getShardingRule(), *choice, cast<OpResult>(value).getResultNumber());
  sharding.partial.clear();
  return sharding;
}

FailureOr<dist::ShardingAttr> StepGraph::crossingSharding(Value value) const {
  FailureOr<sharding::TensorSharding> sharding = shardingOf(value);
  if (failed(sharding))
    return failure();
  return dist::toAttr(value.getContext(), FlatSymbolRefAttr::get(getMesh().getSymNameAttr()),
                      *sharding, mesh);
}

} // namespace dtc::stages
