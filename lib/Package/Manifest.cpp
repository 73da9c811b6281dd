#include "Manifest.h"

#include "dtc/Dialect/Exec/Exec.h"

#include <array>

using namespace mlir;

namespace dtc::package {
namespace {

/// A type's name in safetensors; empty for one that no tensor may have there.
std::string dtypeOf(Type type) {
  if (type.isBF16())
    return "BF16";
  if (auto floating = dyn_cast<FloatType>(type))
    return "F" + std::to_string(floating.getWidth());
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer)
    return "";
  if (integer.getWidth() == 1)
    return "BOOL";
  return (integer.isUnsigned() ? "U" : "I") + std::to_string(integer.getWidth());
}

/// Axis names per dimension; nothing is split without an attribute.
Json shardingOf(Attribute attr, size_t rank) {
  Json dims = Json::array();
  auto sharding = dyn_cast_or_null<dist::ShardingAttr>(attr);
  for (size_t dim = 0; dim < rank; ++dim) {
    Json axes = Json::array();
    if (sharding && dim < sharding.getDims().size())
      for (StringAttr name : sharding.getDims()[dim].getNames())
        axes.push_back(name.str());
    dims.push_back(std::move(axes));
  }
  return dims;
}

class ModuleDescription {
public:
  ModuleDescription(ModuleOp module, const PackageInputs &inputs)
      : module(module), inputs(inputs), symbols(module) {}

  llvm::Expected<Json> run() {
    auto function = module.lookupSymbol<func::FuncOp>("loss_and_grads");
    if (!function)
      function = module.lookupSymbol<func::FuncOp>("forward");
    if (!function)
      return llvm::createStringError("the module has neither @loss_and_grads nor @forward");
    if (llvm::Error error = describeMesh())
      return std::move(error);
    for (const char *key : {"parameters", "inputs", "outputs"})
      result[key] = Json::array();
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (llvm::Error error = describeArgument(function, i))
        return std::move(error);
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      describeResult(function, i);
    return result;
  }

private:
  llvm::Error describeMesh() {
    auto meshes = module.getOps<dist::MeshOp>();
    if (meshes.empty())
      return llvm::createStringError("the module has no mesh");
    mesh = dist::toMesh(*meshes.begin());
    result["mesh"] = Json::array();
    for (const sharding::MeshAxis &axis : mesh.axes)
      result["mesh"].push_back(
          {{"name", axis.name}, {"degree", axis.degree}, {"size", axis.size}});
    return llvm::Error::success();
  }

  llvm::Error describeArgument(func::FuncOp function, unsigned index) {
    graph::RoleAttr role = graph::getArgRole(function, index);
    if (!role)
      return llvm::createStringError("an argument has no role: " + std::to_string(index));
    Attribute sharding = function.getArgAttr(index, dist::DistDialect::kSharding);
    auto type = cast<RankedTensorType>(function.getArgumentTypes()[index]);
    using Kind = graph::RoleKind;
    if (role.getKind() == Kind::Parameter || role.getKind() == Kind::Buffer)
      return describeParameter(role.getName(), type, sharding);
    if (role.getKind() == Kind::Input || role.getKind() == Kind::Target) {
      Json input = describeTensor(
          role.getKind() == Kind::Target ? "target" : role.getName(), type, sharding);
      auto limit = function.getArgAttrOfType<IntegerAttr>(index, graph::GraphDialect::kLimit);
      input["limit"] = limit ? Json(limit.getInt()) : Json(nullptr);
      result["inputs"].push_back(input);
    }
    return llvm::Error::success();
  }

  void describeResult(func::FuncOp function, unsigned index) {
    graph::RoleAttr role = graph::getResultRole(function, index);
    if (!role || role.getKind() != graph::RoleKind::Output)
      return;
    result["outputs"].push_back(
        describeTensor(role.getName(), cast<RankedTensorType>(function.getResultTypes()[index]),
                       function.getResultAttr(index, dist::DistDialect::kSharding)));
  }

  /// Global shape from the local one: every axis that splits multiplies.
  Json describeTensor(StringRef name, RankedTensorType local, Attribute attr) {
    Json sharding = shardingOf(attr, local.getRank());
    Json shape = Json::array();
    for (int64_t dim = 0; dim < local.getRank(); ++dim) {
      int64_t size = local.getDimSize(dim);
      for (const Json &axis : sharding[dim])
        for (const sharding::MeshAxis &known : mesh.axes)
          size *= known.name == axis.get<std::string>() ? known.size : 1;
      shape.push_back(size);
    }
    return {{"name", name.str()},
            {"dtype", dtypeOf(local.getElementType())},
            {"shape", shape},
            {"sharding", sharding}};
  }

  llvm::Error describeParameter(StringRef name, RankedTensorType local, Attribute sharding) {
    auto op = symbols.lookup<graph::ParameterOp>(name);
    if (!op)
      return llvm::createStringError("no dtc.parameter declares the argument: " + name.str());
    auto view = cast<RankedTensorType>(op.getType());
    auto file = cast<RankedTensorType>(op.getFileType());
    Json aliases = Json::array();
    for (auto alias : op.getAliases().getAsRange<StringAttr>())
      aliases.push_back(alias.str());
    Json init = nullptr;
    if (auto it = inputs.init.find(name.str()); it != inputs.init.end())
      init = {{"mean", it->second.mean}, {"sd", it->second.sd}};
    // Key by key: an initializer list would copy everything, thousands of times.
    Json &entry = result["parameters"].emplace_back();
    entry["name"] = name.str();
    entry["aliases"] = std::move(aliases);
    entry["dtype"] = dtypeOf(file.getElementType());
    entry["shape"] = file.getShape();
    entry["view"] = view.getShape();
    entry["trainable"] = op.getTrainable();
    entry["sharding"] = shardingOf(sharding, view.getRank());
    entry["storage_dtype"] = dtypeOf(local.getElementType());
    entry["init"] = std::move(init);
    return llvm::Error::success();
  }

  ModuleOp module;
  const PackageInputs &inputs;
  SymbolTable symbols;
  sharding::Mesh mesh;
  Json result;
};

/// Visits every instruction of a step, as often as it is executed.
void forEachExecuted(const rt::fbs::ProgramT &program,
                     llvm::function_ref<void(const rt::fbs::InstructionT &)> visit) {
  for (const rt::fbs::Call &call : program.schedule)
    for (const auto &instruction : program.functions[call.function()]->instructions)
      visit(*instruction);
}

} // namespace

llvm::Expected<Json> describeModule(ModuleOp module, const PackageInputs &inputs) {
  return ModuleDescription(module, inputs).run();
}

Json countCollectives(const rt::fbs::ProgramT &program) {
  static constexpr std::array<const char *, 5> kNames = {"all_reduce", "all_gather",
                                                         "reduce_scatter", "all_to_all", "permute"};
  Json counts = Json::object();
  for (const char *name : kNames)
    counts[name] = 0;
  counts["send"] = counts["recv"] = 0;
  forEachExecuted(program, [&](const rt::fbs::InstructionT &instruction) {
    const rt::fbs::CollectiveT *op = instruction.op.AsCollective();
    auto kind = op ? static_cast<size_t>(op->kind) : kNames.size();
    if (kind < kNames.size()) // a slice is no communication
      counts[kNames[kind]] = counts[kNames[kind]].get<int64_t>() + 1;
  });
  return counts;
}

Json countLibraryCalls(const rt::fbs::ProgramT &program) {
  int64_t matmuls = 0, convolutions = 0;
  forEachExecuted(program, [&](const rt::fbs::InstructionT &instruction) {
    matmuls += instruction.op.AsMatmul() != nullptr;
    convolutions += instruction.op.AsConv() != nullptr;
  });
  Json counts = Json::object();
  if (matmuls)
    counts["matmul"] = matmuls;
  if (convolutions)
    counts["convolution"] = convolutions;
  return counts;
}

} // namespace dtc::package
