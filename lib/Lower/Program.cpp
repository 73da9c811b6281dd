#include "dtc/Lower/Program.h"
#include "Instructions.h"

#include "dtc/Dialect/Exec/LastOf.h"
#include "dtc/Dialect/Graph/StepOps.h"
#include "dtc/Target/LibraryRecords.h"

using namespace mlir;
namespace fbs = dtc::rt::fbs;

namespace dtc::lower {
namespace {

using graph::RoleKind;

/// The count of targets is a home that functions give, too: it is no scalar here.
fbs::BindingKind scalarKindOf(graph::ScalarKind kind) {
  switch (kind) {
  case graph::ScalarKind::LearningRate:
    return fbs::BindingKind::LearningRate;
  case graph::ScalarKind::Step:
    return fbs::BindingKind::StepNumber;
  case graph::ScalarKind::Count:
    return fbs::BindingKind::Count;
  case graph::ScalarKind::Evaluation:
    return fbs::BindingKind::Evaluation;
  }
  return fbs::BindingKind::StepNumber;
}

/// None for a state or scalar of which the role doesn't say the kind.
std::optional<fbs::BindingKind> bindingKindOf(graph::RoleAttr role) {
  switch (role.getKind()) {
  case RoleKind::Parameter:
    return fbs::BindingKind::Parameter;
  case RoleKind::Buffer:
    return fbs::BindingKind::Buffer;
  case RoleKind::Master:
    return fbs::BindingKind::Master;
  case RoleKind::State:
    return role.getState() ? std::optional(fbs::BindingKind::State) : std::nullopt;
  case RoleKind::Gradient:
    return fbs::BindingKind::Gradient;
  case RoleKind::Input:
    return fbs::BindingKind::Input;
  case RoleKind::Target:
    return fbs::BindingKind::Target;
  case RoleKind::Output:
    return fbs::BindingKind::Output;
  case RoleKind::Loss:
    return fbs::BindingKind::Loss;
  case RoleKind::GradNorm:
    return fbs::BindingKind::GradNorm;
  case RoleKind::Count:
    return role.getName() == graph::kNonFinite ? fbs::BindingKind::NonFinite
                                               : fbs::BindingKind::Count;
  case RoleKind::Kept:
    return fbs::BindingKind::Kept;
  case RoleKind::Inbox:
    return fbs::BindingKind::Inbox;
  case RoleKind::Outbox:
    return fbs::BindingKind::Outbox;
  case RoleKind::Scalar:
    if (!role.getScalar())
      return std::nullopt;
    return scalarKindOf(*role.getScalar());
  }
  return std::nullopt;
}

class ProgramBuilder {
public:
  ProgramBuilder(ModuleOp module, const HomeTable &homes)
      : module(module), homes(homes), evaluated(module, homes),
        program(std::make_unique<fbs::ProgramT>()) {}

  FailureOr<RoleProgram> build() {
    if (failed(addSizes()) || failed(addMesh()) || failed(findRanks()))
      return failure();
    addKernels();
    if (failed(addBindings()) || failed(addFunctions()) || failed(addSchedule()))
      return failure();
    return RoleProgram{std::move(program), std::move(ranks)};
  }

private:
  LogicalResult addSizes() {
    auto arena = module->getAttrOfType<IntegerAttr>(exec::ExecDialect::kArenaBytes);
    auto threads = module->getAttrOfType<IntegerAttr>(exec::ExecDialect::kThreads);
    if (!arena || !threads)
      return module.emitError("memory is not planned");
    program->arena_bytes = arena.getInt();
    if (auto host = module->getAttrOfType<IntegerAttr>(exec::ExecDialect::kHostBytes))
      program->host_arena_bytes = host.getInt();
    program->threads = threads.getInt();
    return success();
  }

  LogicalResult addMesh() {
    auto meshes = module.getOps<dist::MeshOp>();
    if (!llvm::hasSingleElement(meshes))
      return module.emitError("needs one dist.mesh");
    mesh = dist::toMesh(*meshes.begin());
    for (const sharding::MeshAxis &axis : mesh.axes) {
      auto entry = std::make_unique<fbs::MeshAxisT>();
      entry->name = axis.name;
      entry->degree = axis.degree;
      entry->size = axis.size;
      program->mesh_axes.push_back(std::move(entry));
    }
    return success();
  }

  LogicalResult findRanks() {
    auto given = module->getAttrOfType<DenseI32ArrayAttr>(exec::ExecDialect::kRanks);
    if (given)
      ranks.assign(given.asArrayRef().begin(), given.asArrayRef().end());
    for (int32_t rank = 0; !given && rank < mesh.devices(); ++rank)
      ranks.push_back(rank);
    if (static_cast<int64_t>(ranks.size()) != mesh.devices())
      return module.emitError("the mesh has ") << mesh.devices() << " devices, but the ranks are: "
                                               << ranks.size();
    return success();
  }

  void addKernels() {
    for (auto kernel : module.getOps<exec::KernelOp>()) {
      ProgramKernel &entry = kernels[kernel.getSymName()];
      entry = {static_cast<uint32_t>(program->kernels.size()), kernel.getScratchBytes(), {}};
      if (exec::GeometryAttr geometry = kernel.getGeometryAttr())
        entry.geometry =
            fbs::Geometry(geometry.getBlocks(), geometry.getThreads(), geometry.getSharedBytes());
      program->kernels.push_back(kernel.getSymName().str());
    }
  }

  LogicalResult addFunctions() {
    ProgramTables tables{RankGroups(mesh, ranks)};
    std::vector<std::vector<Arrival>> arrivals;
    for (auto function : module.getOps<func::FuncOp>()) {
      FunctionTranslator translator(function, homes, evaluated, mesh, tables, kernels);
      auto translated = translator.translate();
      if (!translated)
        return failure();
      functions[function.getSymName()] = program->functions.size();
      program->functions.push_back(std::move(translated));
      arrivals.push_back(translator.takeArrivals());
    }
    for (auto function : module.getOps<func::FuncOp>())
      if (StringRef other = exec::lastOf(function); !other.empty())
        program->functions[functions.lookup(function.getSymName())]->last_of =
            static_cast<int32_t>(functions.lookup(other));
    addTables(tables);
    addTokens(*program, arrivals);
    return success();
  }

  void addTables(ProgramTables &tables) {
    program->groups = tables.groups.take();
    for (const exec::Queue &each : tables.queues) {
      auto queue = std::make_unique<fbs::QueueT>();
      queue->name = exec::stringifyQueueKind(each.kind);
      for (StringAttr axis : each.axes ? each.axes.getNames() : ArrayRef<StringAttr>())
        queue->name += " " + axis.str();
      queue->kind = static_cast<fbs::QueueKind>(each.kind);
      program->queues.push_back(std::move(queue));
    }
    for (std::vector<int32_t> &list : tables.peers) {
      auto peers = std::make_unique<fbs::RankListT>();
      peers->ranks = std::move(list);
      program->peers.push_back(std::move(peers));
    }
  }

  LogicalResult addSchedule() {
    auto schedule = *module.getOps<exec::ScheduleOp>().begin(); // there is one: HomeTable
    program->num_microbatches = schedule.getMicrobatches();
    for (auto call : schedule.getOps<exec::CallOp>()) {
      auto callee = functions.find(call.getCallee());
      if (callee == functions.end())
        return call.emitError("calls an unknown function: ") << call.getCallee();
      program->schedule.push_back(fbs::Call(callee->second, call.getMicrobatch(), call.getSlot(),
                                            call.getInbox(), call.getOutbox()));
    }
    return success();
  }

  fbs::Ref refOf(const Home &home) const {
    fbs::Scope scope = movesWithCall(home) ? programScope(home.scope()) : fbs::Scope::Step;
    return {home.offset, home.stride, scope, programSpace(home.space)};
  }

  /// One for each home, so that both have the same indices.
  LogicalResult addBindings() {
    for (const Home &home : homes.getHomes())
      if (failed(addBinding(home)))
        return failure();
    return success();
  }

  LogicalResult addBinding(const Home &home) {
    std::optional<fbs::DType> dtype = target::dtypeOf(home.type.getElementType());
    if (!dtype)
      return module.emitError("no tensor of this element type can be bound: ") << home.type;
    auto binding = std::make_unique<fbs::BindingT>();
    graph::RoleAttr role = homeRole(home.role);
    std::optional<fbs::BindingKind> kind = bindingKindOf(role);
    if (!kind)
      return module.emitError("role doesn't say which state or scalar: ") << home.role;
    binding->kind = *kind;
    binding->name = *kind == fbs::BindingKind::Target ? "target" : role.getName().str();
    if (role.getState())
      binding->state = graph::stringifyStateKind(*role.getState());
    binding->ref = std::make_unique<fbs::Ref>(refOf(home));
    binding->dtype = *dtype;
    binding->local_shape.assign(home.type.getShape().begin(), home.type.getShape().end());
    if (failed(place(home, *binding)))
      return failure();
    program->bindings.push_back(std::move(binding));
    return success();
  }

  /// The shape of the whole, and how its elements are divided.
  LogicalResult place(const Home &home, fbs::BindingT &binding) {
    auto sharding = home.sharding ? dist::toSharding(home.sharding, mesh)
                                  : std::optional(sharding::TensorSharding());
    if (!sharding)
      return module.emitError("a sharding names an axis that the mesh lacks: ") << home.sharding;
    binding.placement = std::make_unique<fbs::PlacementT>();
    for (const sharding::Partial &partial : sharding->partial)
      binding.placement->partial_axes.push_back(partial.axis);
    if (home.flat)
      return placeFlat(home, binding);
    sharding->dims.resize(home.type.getRank());
    binding.shape = binding.local_shape;
    for (auto [size, dim] : llvm::zip_equal(binding.shape, sharding->dims)) {
      size *= mesh.size(dim);
      addDim(dim, *binding.placement);
    }
    return success();
  }

  static void addDim(const sharding::AxisList &dim, fbs::PlacementT &placement) {
    auto axes = std::make_unique<fbs::AxisListT>();
    axes->axes.assign(dim.begin(), dim.end());
    placement.dims.push_back(std::move(axes));
  }

  /// A bucket of its own.
  LogicalResult placeFlat(const Home &home, fbs::BindingT &binding) {
    binding.shape.assign(home.flat.getShape().begin(), home.flat.getShape().end());
    std::optional<sharding::AxisList> over = dist::toAxes(home.flat.getAxes(), mesh);
    if (!over)
      return module.emitError("storage names an axis that the mesh lacks: ") << home.flat;
    for (dist::AxesAttr attr : home.flat.getDims()) {
      std::optional<sharding::AxisList> dim = dist::toAxes(attr, mesh);
      if (!dim)
        return module.emitError("storage names an axis that the mesh lacks: ") << home.flat;
      addDim(*dim, *binding.placement);
    }
    binding.placement->flat_axes.assign(over->begin(), over->end());
    binding.placement->bucket_elements = home.type.getNumElements() * mesh.size(*over);
    return success();
  }

  ModuleOp module;
  const HomeTable &homes;
  const EvaluatedOps evaluated;
  std::unique_ptr<fbs::ProgramT> program;
  sharding::Mesh mesh;
  std::vector<int32_t> ranks; ///< by position on the mesh
  llvm::StringMap<ProgramKernel> kernels;
  llvm::StringMap<uint32_t> functions;
};

} // namespace

FailureOr<RoleProgram> buildProgram(ModuleOp module) {
  FailureOr<HomeTable> homes = HomeTable::build(module);
  if (failed(homes))
    return failure();
  return ProgramBuilder(module, *homes).build();
}

} // namespace dtc::lower
