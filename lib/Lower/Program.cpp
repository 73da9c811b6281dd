#include "dtc/Lower/Program.h"
#include "Instructions.h"

#include "dtc/Target/LibraryRecords.h"

using namespace mlir;
namespace fbs = dtc::rt::fbs;

namespace dtc::lower {
namespace {

using graph::RoleKind;

class ProgramBuilder {
public:
  ProgramBuilder(ModuleOp module, const HomeTable &homes)
      : module(module), homes(homes), program(std::make_unique<fbs::ProgramT>()) {}

  FailureOr<std::unique_ptr<fbs::ProgramT>> build() {
    if (failed(addSizes()) || failed(addMesh()))
      return failure();
    addKernels();
    if (failed(addFunctions()) || failed(addSchedule()) || failed(addHomes()))
      return failure();
    return std::move(program);
  }

private:
  LogicalResult addSizes() {
    auto arena = module->getAttrOfType<IntegerAttr>(exec::ExecDialect::kArenaBytes);
    auto threads = module->getAttrOfType<IntegerAttr>(exec::ExecDialect::kThreads);
    if (!arena || !threads)
      return module.emitError("memory is not planned");
    program->arena_bytes = arena.getInt();
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

  void addKernels() {
    for (auto kernel : module.getOps<exec::KernelOp>()) {
      kernels[kernel.getSymName()] = {static_cast<uint32_t>(program->kernels.size()),
                                      kernel.getScratchBytes()};
      program->kernels.push_back(kernel.getSymName().str());
    }
  }

  LogicalResult addFunctions() {
    for (auto function : module.getOps<func::FuncOp>()) {
      auto translated = FunctionTranslator(function, homes, mesh, kernels).translate();
      if (!translated)
        return failure();
      functions[function.getSymName()] = program->functions.size();
      program->functions.push_back(std::move(translated));
    }
    return success();
  }

  LogicalResult addSchedule() {
    auto schedule = *module.getOps<exec::ScheduleOp>().begin(); // there is one: HomeTable
    program->num_microbatches = schedule.getMicrobatches();
    for (auto call : schedule.getOps<exec::CallOp>()) {
      auto callee = functions.find(call.getCallee());
      if (callee == functions.end())
        return call.emitError("calls an unknown function: ") << call.getCallee();
      program->schedule.push_back(fbs::Call(callee->second, call.getMicrobatch(), call.getSlot()));
    }
    return success();
  }

  fbs::Ref refOf(const Home &home) const {
    if (home.count == 1)
      return {home.offset, 0, fbs::Per::Step};
    return {home.offset, home.stride, fbs::Per::Microbatch};
  }

  LogicalResult addHomes() {
    for (const Home &home : homes.getHomes())
      if (failed(addHome(home)))
        return failure();
    return success();
  }

  LogicalResult addHome(const Home &home) {
    switch (homeRole(home.role).getKind()) {
    case RoleKind::Parameter:
    case RoleKind::Buffer:
      return bind(program->parameters, home, home.role.getName(), "");
    case RoleKind::Master:
      return bind(program->states, home, home.role.getName(), "master");
    case RoleKind::State:
      if (!home.role.getState())
        return module.emitError("state role doesn't say which: ") << home.role;
      return bind(program->states, home, home.role.getName(),
                  graph::stringifyStateKind(*home.role.getState()));
    case RoleKind::Input:
      return bind(program->inputs, home, home.role.getName(), "");
    case RoleKind::Target:
      return bind(program->inputs, home, "target", "");
    case RoleKind::Output:
      return bind(program->outputs, home, home.role.getName(), "");
    case RoleKind::Scalar:
      return bindScalar(home);
    case RoleKind::Loss:
      program->loss = std::make_unique<fbs::Ref>(refOf(home));
      return success();
    case RoleKind::GradNorm:
      program->grad_norm = std::make_unique<fbs::Ref>(refOf(home));
      return success();
    case RoleKind::Gradient:
    case RoleKind::Count:
      return success();
    }
    return module.emitError("unknown role: ") << home.role;
  }

  LogicalResult bind(std::vector<std::unique_ptr<fbs::BindingT>> &list, const Home &home,
                     StringRef name, StringRef state) {
    std::optional<fbs::DType> dtype = target::dtypeOf(home.type.getElementType());
    if (!dtype)
      return module.emitError("no tensor of this element type can be bound: ") << home.type;
    auto binding = std::make_unique<fbs::BindingT>();
    binding->name = name.str();
    binding->state = state.str();
    binding->ref = std::make_unique<fbs::Ref>(refOf(home));
    binding->dtype = *dtype;
    binding->local_shape.assign(home.type.getShape().begin(), home.type.getShape().end());
    list.push_back(std::move(binding));
    return success();
  }

  LogicalResult bindScalar(const Home &home) {
    std::optional<fbs::DType> dtype = target::dtypeOf(home.type.getElementType());
    auto kind = home.role.getScalar();
    if (!kind || !dtype)
      return module.emitError("scalar role doesn't say which: ") << home.role;
    auto scalar = std::make_unique<fbs::ScalarT>();
    scalar->kind = *kind == graph::ScalarKind::LearningRate ? fbs::ScalarKind::LearningRate
                                                            : fbs::ScalarKind::StepNumber;
    scalar->dtype = *dtype;
    scalar->target = std::make_unique<fbs::Ref>(refOf(home));
    program->scalars.push_back(std::move(scalar));
    return success();
  }

  ModuleOp module;
  const HomeTable &homes;
  std::unique_ptr<fbs::ProgramT> program;
  sharding::Mesh mesh;
  llvm::StringMap<ProgramKernel> kernels;
  llvm::StringMap<uint32_t> functions;
};

} // namespace

FailureOr<std::unique_ptr<fbs::ProgramT>> buildProgram(ModuleOp module) {
  FailureOr<HomeTable> homes = HomeTable::build(module);
  if (failed(homes))
    return failure();
  return ProgramBuilder(module, *homes).build();
}

} // namespace dtc::lower
