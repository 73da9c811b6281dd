#include "dtc/Stages/Stages.h"

#include "CutUpdate.h"
#include "StageFunction.h"

using namespace mlir;
using namespace dtc::graph;

namespace dtc::stages {
namespace {

class StageCutter {
public:
  StageCutter(ModuleOp module, StepOnMeshes whole)
      : module(module), whole(std::move(whole)), step(this->whole.steps.front()) {}

  LogicalResult run() {
    SmallVector<Operation *> old;
    for (Operation &op : *module.getBody())
      old.push_back(&op);
    for (int rank = 0; rank < step.numRanks(); ++rank)
      createModule(rank);
    for (int stage = 0; stage < step.numStages(); ++stage)
      if (failed(buildStage(whole, stage, modules[step.rankOf(stage)])))
        return failure();
    if (step.trains() && failed(addWhatRunsOnce()))
      return failure();
    for (ModuleOp rank : modules)
      addParameters(rank);
    for (Operation *op : llvm::reverse(old))
      op->erase();
    return success();
  }

private:
  /// The step as the mesh of a rank has it. Rank r has stage r.
  const StepGraph &onRank(int rank) const { return whole.ofStage(rank); }

  void createModule(int rank) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto made = ModuleOp::create(builder, module.getLoc(), "rank" + std::to_string(rank));
    builder.setInsertionPointToStart(made.getBody());
    builder.clone(*onRank(rank).getMesh());
    modules.push_back(made);
  }

  LogicalResult addWhatRunsOnce() {
    findFacts();
    std::vector<UpdateParts> parts; // by mesh
    for (const StepGraph &onMesh : whole.steps) {
      FailureOr<UpdateParts> found = UpdateParts::of(onMesh, facts);
      if (failed(found))
        return failure();
      parts.push_back(std::move(*found));
    }
    for (int rank = 0; rank < step.numRanks(); ++rank)
      if (failed(addPrologue(rank)) ||
          failed(buildUpdate(onRank(rank), facts, parts[whole.meshOfStage[rank]], rank,
                             modules[rank])))
        return failure();
    return success();
  }

  /// The ranks whose functions take each parameter, ascending.
  llvm::StringMap<SmallVector<int>> holdersOfParameters() {
    llvm::StringMap<SmallVector<int>> holders;
    for (auto [rank, made] : llvm::enumerate(modules))
      for (auto function : made.getOps<func::FuncOp>())
        for (unsigned i = 0; i < function.getNumArguments(); ++i)
          if (RoleAttr role = getArgRole(function, i); role.getKind() == RoleKind::Parameter)
            if (SmallVector<int> &own = holders[role.getName()];
                own.empty() || own.back() != static_cast<int>(rank))
              own.push_back(static_cast<int>(rank));
    return holders;
  }

  /// Whether ranks have different meshes.
  bool areApart(ArrayRef<int> ranks) const {
    return llvm::any_of(ranks, [&](int rank) {
      return whole.meshOfStage[rank] != whole.meshOfStage[ranks.front()];
    });
  }

  void findFacts() {
    facts.apart = whole.steps.size() > 1;
    llvm::StringMap<SmallVector<int>> holdersOf = holdersOfParameters();
    for (const ReturnedSum &sum : step.getReturned()) {
      const int last = step.rankOf(sum.stages.back());
      if (sum.role.getKind() == RoleKind::Loss) {
        facts.lossRank = last;
        continue;
      }
      if (sum.role.getKind() == RoleKind::Buffer)
        continue; // the update doesn't see it
      if (sum.role.getKind() == RoleKind::Count) {
        facts.countedOn[sum.role.getName()] = last;
        continue;
      }
      facts.parameters.push_back(trained(sum, holdersOf.lookup(sum.role.getName())));
    }
  }

  /// `takers`: the ranks whose functions take the parameter.
  TrainedParameter trained(const ReturnedSum &sum, ArrayRef<int> takers) const {
    SmallVector<int64_t> stages(sum.stages.begin(), sum.stages.end());
    auto ranks = llvm::map_to_vector(
        sum.stages, [&](int stage) { return static_cast<int64_t>(step.rankOf(stage)); });
    llvm::SetVector<int64_t> holders(ranks.begin(), ranks.end());
    holders.insert(takers.begin(), takers.end());
    TrainedParameter made{sum.role.getName().str(), sum.stages, {}, {}, false};
    made.rounds = schedule::sumRounds(stages, ranks, holders.getArrayRef());
    made.holders.assign(holders.begin(), holders.end());
    made.apart = areApart(made.holders);
    return made;
  }

  /// Where the count of valid targets is read: with the loss, by its gradient and by the mean.
  LogicalResult addPrologue(int rank) {
    bool reads = rank == facts.lossRank;
    for (auto function : modules[rank].getOps<func::FuncOp>())
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        reads |= getArgRole(function, i).getScalar() == ScalarKind::Count;
    if (reads)
      OpBuilder::atBlockEnd(modules[rank].getBody()).clone(*onRank(rank).getPrologue());
    return success();
  }

  /// Of those that the rank's functions take, in the order of the model.
  void addParameters(ModuleOp rank) {
    DenseSet<StringRef> taken;
    for (auto function : rank.getOps<func::FuncOp>())
      for (unsigned i = 0; i < function.getNumArguments(); ++i) {
        RoleAttr role = getArgRole(function, i);
        if (role.getKind() == RoleKind::Parameter || role.getKind() == RoleKind::Buffer)
          taken.insert(role.getName());
      }
    OpBuilder builder(rank.getContext());
    builder.setInsertionPointAfter(&rank.getBody()->front()); // behind the mesh
    for (auto parameter : module.getOps<ParameterOp>())
      if (taken.contains(parameter.getSymName()))
        builder.clone(*parameter);
  }

  ModuleOp module;
  StepOnMeshes whole;
  const StepGraph &step;         ///< on the first mesh: what doesn't depend on it
  SmallVector<ModuleOp> modules; ///< by rank
  UpdateFacts facts;
};

} // namespace

/// Of the stages of a module's mesh; null where it doesn't say.
static ArrayAttr devicesOf(ModuleOp module) {
  auto meshes = module.getOps<dist::MeshOp>();
  return meshes.empty() ? ArrayAttr()
                        : (*meshes.begin())->getAttrOfType<ArrayAttr>(dist::DistDialect::kDevices);
}

/// Has every mesh name the devices of all stages; finds which of them each stage has.
static LogicalResult joinDevices(MutableArrayRef<ModuleOp> groups, std::vector<int> &meshOfStage) {
  SmallVector<Attribute> all(devicesOf(groups.front()).size());
  meshOfStage.assign(all.size(), -1);
  for (auto [index, group] : llvm::enumerate(groups)) {
    ArrayAttr devices = devicesOf(group);
    if (!devices || devices.size() != all.size())
      return group.emitError("has a mesh that doesn't say which of the stages it is of: ")
             << all.size();
    for (auto [stage, own] : llvm::enumerate(devices))
      if (!cast<DenseI64ArrayAttr>(own).empty()) {
        all[stage] = own;
        meshOfStage[stage] = static_cast<int>(index);
      }
  }
  if (auto lacking = llvm::find(meshOfStage, -1); lacking != meshOfStage.end())
    return groups.front().emitError("no mesh is that of stage ") << lacking - meshOfStage.begin();
  for (ModuleOp group : groups)
    (*group.getOps<dist::MeshOp>().begin())
        ->setAttr(dist::DistDialect::kDevices, ArrayAttr::get(group.getContext(), all));
  return success();
}

LogicalResult cutStages(ModuleOp module) {
  ArrayAttr devices = devicesOf(module);
  if (!devices || devices.size() <= 1)
    return success();
  SmallVector<ModuleOp> groups = {module};
  llvm::append_range(groups, module.getOps<ModuleOp>());
  StepOnMeshes whole;
  if (failed(joinDevices(groups, whole.meshOfStage)))
    return failure();
  for (ModuleOp group : groups) {
    FailureOr<StepGraph> step = StepGraph::build(group);
    if (failed(step))
      return failure();
    whole.steps.push_back(std::move(*step));
  }
  return StageCutter(module, std::move(whole)).run();
}

SmallVector<ModuleOp> rankModules(ModuleOp module) {
  SmallVector<ModuleOp> ranks(module.getOps<ModuleOp>());
  if (ranks.empty())
    ranks.push_back(module);
  return ranks;
}

} // namespace dtc::stages
