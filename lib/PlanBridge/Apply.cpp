// From a plan to the IR.
#include "Functions.h"

#include "dtc/Dialect/Dist/Dist.h"
#include "dtc/Dialect/Dist/Zigzag.h"
#include "dtc/Plan/Plan/Blocks.h"
#include "dtc/Plan/Plan/Crossings.h"
#include "dtc/Plan/Plan/SequenceOrder.h"
#include "dtc/PlanBridge/PlanBridge.h"

#include <limits>
#include <map>

using namespace mlir;
using namespace dtc::graph;

namespace dtc::planbridge {

using plan::Plan;
using plan::Problem;
using plan::ValueId;
using plan::ValueKind;
using sharding::TensorSharding;

namespace {

class Applier {
public:
  /// `ownStages`: those of the mesh, where stages have several; empty: all.
  Applier(ModuleOp module, const Problem &problem, const Plan &plan,
          const std::vector<bool> &ownStages = {})
      : module(module), problem(problem), plan(plan), ownStages(ownStages),
        context(module.getContext()), meshName(FlatSymbolRefAttr::get(context, "mesh")),
        zigzag(plan::liesInZigzag(problem, plan::ProblemFacts(problem), plan)) {
    for (const auto &[id, sharding] : plan.arguments) {
      const plan::Value &value = problem.values[id];
      TensorSharding complete = sharding;
      complete.partial.clear();
      if (zigzag)
        complete = plan::asLoaded(value, std::move(complete), plan.mesh);
      // There is one target, whatever it is called.
      arguments[value.kind][value.kind == ValueKind::Target ? "" : value.name] = {
          sharding.dims.size(), dist::toAttr(context, meshName, complete, plan.mesh)};
    }
  }
  LogicalResult run();

private:
  LogicalResult addMesh();
  Attribute devicesOfStages(Builder &builder) const;
  LogicalResult annotateOps(func::FuncOp func);
  dist::OpShardingAttr choiceOf(size_t op);
  void annotateStages(ArrayRef<Operation *> ops);
  void annotateRecomputation(ArrayRef<Operation *> ops);
  void annotateSignature(func::FuncOp func);
  void findParameterBlocks();
  void annotateStorage(func::FuncOp func);
  dist::AxesAttr storageOf(RoleAttr role, bool isResult) const;
  dist::ShardingAttr shardingOf(RoleAttr role, Type type) const;

  ModuleOp module;
  const Problem &problem;
  const Plan &plan;
  const std::vector<bool> ownStages;
  MLIRContext *context;
  FlatSymbolRefAttr meshName;
  const bool zigzag; ///< parts of sequences lie so
  /// How an argument is laid out, without what is pending.
  struct Argument {
    size_t rank = 0;
    dist::ShardingAttr sharding;
  };
  std::map<ValueKind, llvm::StringMap<Argument>> arguments; ///< by name
  /// By name: with which part of the model a parameter is gathered and its gradient scattered.
  llvm::StringMap<int64_t> parameterBlocks;
  using Choices = SmallVector<std::pair<const sharding::OpSharding *, dist::OpShardingAttr>, 2>;
  llvm::DenseMap<const sharding::ShardingRule *, Choices> choices; ///< of the ops so far
};

} // namespace

LogicalResult Applier::addMesh() {
  if (Operation *present = module.lookupSymbol("mesh"))
    return present->emitError("there is a mesh already: mesh");
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  SmallVector<StringRef> names, degrees;
  SmallVector<int64_t> sizes;
  for (const sharding::MeshAxis &axis : plan.mesh.axes) {
    names.push_back(axis.name);
    degrees.push_back(axis.degree);
    sizes.push_back(axis.size);
  }
  auto mesh =
      dist::MeshOp::create(builder, module.getLoc(), "mesh", builder.getStrArrayAttr(names),
                           builder.getDenseI64ArrayAttr(sizes), builder.getStrArrayAttr(degrees));
  if (zigzag)
    mesh->setAttr(dist::kZigzag, dist::toAttr(context, plan.mesh.ofDegree("cp"), plan.mesh));
  if (Attribute devices = devicesOfStages(builder))
    mesh->setAttr(dist::DistDialect::kDevices, devices);
  return success();
}

/// Null for one stage on the devices from 0 on. Of stages on another mesh it says nothing.
Attribute Applier::devicesOfStages(Builder &builder) const {
  SmallVector<Attribute> stages;
  bool plain = plan.stages.size() <= 1;
  for (auto [index, stage] : llvm::enumerate(plan.stages)) {
    if (!ownStages.empty() && !ownStages[index]) {
      stages.push_back(builder.getDenseI64ArrayAttr({}));
      continue;
    }
    for (auto [i, device] : llvm::enumerate(stage.devices))
      plain &= device == static_cast<int64_t>(i);
    stages.push_back(builder.getDenseI64ArrayAttr(stage.devices));
  }
  return plain ? Attribute() : builder.getArrayAttr(stages);
}

LogicalResult Applier::annotateOps(func::FuncOp func) {
  SmallVector<Operation *> ops = plannedOps(func);
  if (ops.size() != problem.ops.size() || ops.size() != plan.ops.size())
    return func.emitError() << "plan is of another function, it has " << plan.ops.size()
                            << " ops, the function " << ops.size();
  auto name = StringAttr::get(context, dist::DistDialect::kOp);
  for (auto [i, op] : llvm::enumerate(ops))
    op->setAttr(name, choiceOf(i));
  annotateStages(ops);
  annotateRecomputation(ops);
  return success();
}

/// What is computed from buffers alone belongs to no stage: each that needs it computes it.
void Applier::annotateStages(ArrayRef<Operation *> ops) {
  if (plan.stages.size() <= 1)
    return;
  auto stageAt = [&](plan::OpId position) {
    auto after = llvm::find_if(plan.stages,
                               [&](const plan::Stage &stage) { return position <= stage.lastOp; });
    return static_cast<int>(std::min<size_t>(after - plan.stages.begin(), plan.stages.size() - 1));
  };
  Builder builder(context);
  std::vector<int> stages = plan::partsOfOps(problem, plan::ProblemFacts(problem), stageAt);
  for (auto [op, stage] : llvm::zip_equal(ops, stages))
    if (stage >= 0)
      op->setAttr(dist::DistDialect::kStage, builder.getI64IntegerAttr(stage));
}

void Applier::annotateRecomputation(ArrayRef<Operation *> ops) {
  if (plan.recompute.empty())
    return;
  std::vector<plan::Block> blocks = plan::findBlocks(problem, plan::ProblemFacts(problem));
  for (const plan::BlockRecompute &recompute : plan.recompute) {
    bool known = recompute.block >= 0 && recompute.block < static_cast<int64_t>(blocks.size());
    if (recompute.kind == plan::Recompute::None || !known)
      continue;
    bool full = recompute.kind == plan::Recompute::Full;
    auto attr = dist::RecomputeAttr::get(
        context, full ? dist::Recompute::Full : dist::Recompute::Selective, recompute.block);
    const plan::Block &block = blocks[recompute.block];
    for (int64_t op = block.first; op <= block.last; ++op)
      ops[op]->setAttr(dist::DistDialect::kRecompute, attr);
  }
}

/// Made once for ops that share a rule, as those of all layers do.
dist::OpShardingAttr Applier::choiceOf(size_t op) {
  const sharding::ShardingRule &rule = problem.ops[op].rule;
  const sharding::OpSharding &choice = plan.ops[op];
  Choices &known = choices[&rule];
  for (auto [same, attr] : known)
    if (*same == choice)
      return attr;
  known.emplace_back(&choice, dist::toAttr(context, meshName, choice, rule, plan.mesh));
  return known.back().second;
}

/// The sharding of what has this role, in whichever function: gradients, masters
/// and state are laid out as their parameter. Gradients may be pending on top;
/// that is found where they are computed.
dist::ShardingAttr Applier::shardingOf(RoleAttr role, Type type) const {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto find = [&](ValueKind kind, StringRef name) {
    auto named = arguments.find(kind);
    return named == arguments.end() ? Argument() : named->second.lookup(name);
  };
  Argument found;
  switch (role.getKind()) {
  case RoleKind::Parameter:
  case RoleKind::Gradient:
  case RoleKind::State:
  case RoleKind::Master:
    found = find(ValueKind::Parameter, role.getName());
    break;
  case RoleKind::Buffer:
    found = find(ValueKind::Buffer, role.getName());
    break;
  case RoleKind::Input:
    found = find(ValueKind::Input, role.getName());
    break;
  case RoleKind::Target:
    found = find(ValueKind::Target, "");
    break;
  default:
    break;
  }
  bool fits = tensor && found.rank == static_cast<size_t>(tensor.getRank());
  return fits ? found.sharding : dist::ShardingAttr();
}

void Applier::annotateSignature(func::FuncOp func) {
  SmallVector<Attribute> arguments(func.getNumArguments()), results(func.getNumResults());
  for (auto [i, type] : llvm::enumerate(func.getArgumentTypes()))
    if (RoleAttr role = getArgRole(func, i))
      arguments[i] = shardingOf(role, type);
  for (auto [i, type] : llvm::enumerate(func.getResultTypes()))
    if (RoleAttr role = getResultRole(func, i))
      results[i] = shardingOf(role, type);
  setArgAttrs(func, dist::DistDialect::kSharding, arguments);
  setResultAttrs(func, dist::DistDialect::kSharding, results);
}

/// The axes over which what has the role is divided beyond its sharding; null: over none. Of a new
/// parameter, over which it is computed: that of a divided update is gathered where it is whole.
dist::AxesAttr Applier::storageOf(RoleAttr role, bool isResult) const {
  auto storage = llvm::find_if(plan.storage, [&](const plan::ParameterStorage &storage) {
    return storage.parameter == role.getName();
  });
  if (storage == plan.storage.end())
    return nullptr;
  auto axesOf = [&]() -> const sharding::AxisList * {
    switch (role.getKind()) {
    case RoleKind::Parameter:
      return isResult ? &storage->stateAxes : &storage->storageAxes;
    case RoleKind::Gradient:
      return &storage->gradientAxes;
    case RoleKind::Master:
    case RoleKind::State:
      return &storage->stateAxes;
    default:
      return nullptr;
    }
  };
  const sharding::AxisList *axes = axesOf();
  return axes && !axes->empty() ? dist::toAttr(context, *axes, plan.mesh) : nullptr;
}

/// The block where it is read first. What comes before all blocks is one part, and what comes
/// after them another.
void Applier::findParameterBlocks() {
  plan::ProblemFacts facts(problem);
  std::vector<plan::Block> blocks = plan::findBlocks(problem, facts);
  for (ValueId value = 0; value < problem.arguments; ++value) {
    if (problem.values[value].kind != ValueKind::Parameter || facts.consumers[value].empty())
      continue;
    plan::OpId first = std::numeric_limits<plan::OpId>::max();
    for (plan::OpId reader : facts.consumers[value])
      first = std::min(first, facts.position[reader]);
    int64_t part = llvm::count_if(blocks, [&](auto &block) { return block.first <= first; });
    bool isBehind = !blocks.empty() && first > blocks.back().last;
    parameterBlocks[problem.values[value].name] = part + isBehind;
  }
}

void Applier::annotateStorage(func::FuncOp func) {
  /// Of arguments or of results.
  struct Notes {
    explicit Notes(size_t count) : storage(count), block(count), host(count) {}
    SmallVector<Attribute> storage, block, host;
  };
  Notes arguments(func.getNumArguments()), results(func.getNumResults());
  bool offloads = plan.degrees.offload == plan::Offload::Optimizer;
  Builder builder(context);
  auto annotate = [&](RoleAttr role, Notes &notes, unsigned i) {
    if (!role)
      return;
    notes.storage[i] = storageOf(role, &notes == &results);
    if (notes.storage[i])
      notes.block[i] = builder.getI64IntegerAttr(parameterBlocks.lookup(role.getName()));
    if (offloads && (role.getKind() == RoleKind::State || role.getKind() == RoleKind::Master))
      notes.host[i] = UnitAttr::get(context);
  };
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    annotate(getArgRole(func, i), arguments, i);
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    annotate(getResultRole(func, i), results, i);
  setArgAttrs(func, dist::DistDialect::kStorage, arguments.storage);
  setArgAttrs(func, dist::DistDialect::kBlock, arguments.block);
  setArgAttrs(func, dist::DistDialect::kOnHost, arguments.host);
  setResultAttrs(func, dist::DistDialect::kStorage, results.storage);
  setResultAttrs(func, dist::DistDialect::kBlock, results.block);
  setResultAttrs(func, dist::DistDialect::kOnHost, results.host);
}

LogicalResult Applier::run() {
  func::FuncOp main = microbatchFunction(module);
  if (!main)
    return module.emitError("has neither @loss_and_grads nor @forward to plan");
  if (failed(addMesh()) || failed(annotateOps(main)))
    return failure();
  findParameterBlocks();
  for (auto func : module.getOps<func::FuncOp>()) {
    annotateSignature(func);
    annotateStorage(func);
  }
  return success();
}

/// The module has the mesh of the first group, and one inside that of each further group.
static LogicalResult applyToGroups(ModuleOp module, const Problem &problem, const Plan &plan) {
  const size_t count = plan.degrees.groups.size();
  SmallVector<Operation *> whole;
  for (Operation &op : *module.getBody())
    whole.push_back(&op);
  SmallVector<ModuleOp> modules = {module};
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  for (size_t group = 1; group < count; ++group) {
    auto made = ModuleOp::create(builder, module.getLoc(), "group" + std::to_string(group));
    OpBuilder inside = OpBuilder::atBlockEnd(made.getBody());
    for (Operation *op : whole)
      inside.clone(*op);
    modules.push_back(made);
  }
  schedule::Placement placement = placementOf(plan.degrees);
  for (size_t group = 0; group < count; ++group) {
    std::vector<bool> own;
    for (size_t stage = 0; stage < plan.stages.size(); ++stage)
      own.push_back(groupOf(plan.degrees, placement.rank(int64_t(stage))) == group);
    if (failed(Applier(modules[group], problem, inGroup(plan, group), own).run()))
      return failure();
  }
  return success();
}

LogicalResult apply(ModuleOp module, const Problem &problem, const Plan &plan) {
  return plan.degrees.groups.empty() ? Applier(module, problem, plan).run()
                                     : applyToGroups(module, problem, plan);
}

LogicalResult verify(ModuleOp module, const Problem &problem, const Plan &plan,
                     const plan::Cluster &cluster) {
  func::FuncOp main = microbatchFunction(module);
  SmallVector<Operation *> ops;
  if (main)
    ops = plannedOps(main);
  std::vector<plan::Violation> violations = plan::verify(problem, plan, cluster);
  if (violations.empty())
    return success();
  const plan::Violation &first = violations.front(); // the others may follow from it
  bool atOp = first.op >= 0 && first.op < static_cast<plan::OpId>(ops.size());
  InFlightDiagnostic error = emitError(atOp ? ops[first.op]->getLoc() : module.getLoc());
  error << first.message;
  if (violations.size() > 1)
    error << " (and " << violations.size() - 1 << " more)";
  return failure();
}

} // namespace dtc::planbridge
