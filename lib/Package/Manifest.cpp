#include "Manifest.h"

#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Dialect/Graph/Adapters.h"
#include "dtc/Dialect/Graph/FilledView.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <array>
#include <map>

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

class Description {
public:
  explicit Description(const PackageInputs &inputs) : inputs(inputs) {
    for (const char *key : {"parameters", "inputs", "outputs"})
      result[key] = Json::array();
  }

  llvm::Error add(ModuleOp module) {
    symbols = std::make_unique<SymbolTable>(module);
    auto meshes = module.getOps<dist::MeshOp>();
    if (meshes.empty())
      return llvm::createStringError("the module has no mesh");
    mesh = dist::toMesh(*meshes.begin());
    for (auto function : module.getOps<func::FuncOp>()) {
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        if (llvm::Error error = describeArgument(function, i))
          return error;
      if (!graph::runsPerMicrobatch(function))
        continue;
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        describeResult(function, i);
    }
    return llvm::Error::success();
  }

  /// Roles have their parameters in orders of their own.
  Json take() {
    llvm::StringMap<size_t> places;
    for (const std::string &name : inputs.parameters)
      places.try_emplace(name, places.size());
    auto placeOf = [&](const Json &entry) {
      auto known = places.find(entry["name"].get_ref<const std::string &>());
      return known == places.end() ? places.size() : known->second;
    };
    llvm::stable_sort(result["parameters"].get_ref<Json::array_t &>(),
                      [&](const Json &a, const Json &b) { return placeOf(a) < placeOf(b); });
    return std::move(result);
  }

private:
  bool isNew(const char *list, StringRef name) {
    return listed.insert((StringRef(list) + "/" + name).str()).second;
  }

  llvm::Error describeArgument(func::FuncOp function, unsigned index) {
    graph::RoleAttr role = graph::getArgRole(function, index);
    if (!role)
      return llvm::createStringError("an argument has no role: " + std::to_string(index));
    Attribute sharding = function.getArgAttr(index, dist::DistDialect::kSharding);
    auto type = cast<RankedTensorType>(function.getArgumentTypes()[index]);
    using graph::RoleKind;
    if ((role.getKind() == RoleKind::Parameter || role.getKind() == RoleKind::Buffer) &&
        isNew("parameters", role.getName()))
      return describeParameter(role.getName(), type);
    // Data of one microbatch: what runs once a step sees all of them.
    StringRef name = role.getKind() == RoleKind::Target ? "target" : role.getName();
    bool isData = role.getKind() == RoleKind::Input || role.getKind() == RoleKind::Target;
    if (isData && graph::runsPerMicrobatch(function) && isNew("inputs", name)) {
      Json input = describeTensor(name, type, sharding);
      auto limit = function.getArgAttrOfType<IntegerAttr>(index, graph::GraphDialect::kLimit);
      input["limit"] = limit ? Json(limit.getInt()) : Json(nullptr);
      result["inputs"].push_back(input);
    }
    return llvm::Error::success();
  }

  void describeResult(func::FuncOp function, unsigned index) {
    graph::RoleAttr role = graph::getResultRole(function, index);
    if (!role || role.getKind() != graph::RoleKind::Output || !isNew("outputs", role.getName()))
      return;
    result["outputs"].push_back(
        describeTensor(role.getName(), cast<RankedTensorType>(function.getResultTypes()[index]),
                       function.getResultAttr(index, dist::DistDialect::kSharding)));
  }

  /// Global shape from the local one: every axis that splits multiplies.
  Json describeTensor(StringRef name, RankedTensorType local, Attribute attr) {
    SmallVector<int64_t> shape(local.getShape());
    if (auto sharding = dyn_cast_or_null<dist::ShardingAttr>(attr))
      for (auto [size, axes] : llvm::zip(shape, sharding.getDims()))
        for (StringAttr axis : axes.getNames())
          if (sharding::AxisId known = mesh.find(axis.str()); known >= 0)
            size *= mesh.axes[known].size;
    Json tensor = {
        {"name", name.str()}, {"dtype", dtypeOf(local.getElementType())}, {"shape", shape}};
    if (auto found = inputs.batchDims.find(name.str()); found != inputs.batchDims.end())
      tensor["batch_dim"] = found->second ? Json(*found->second) : Json("none");
    return tensor;
  }

  static Json describeAdapter(graph::ParameterOp op) {
    auto adapter = graph::adapterOf(op);
    if (!adapter)
      return nullptr;
    Json layout = nullptr;
    if (adapter.getLayout() != graph::WeightLayout::Other)
      layout = graph::stringifyWeightLayout(adapter.getLayout()).str();
    return {{"base", adapter.getBase().getValue().str()},
            {"part", adapter.getPart() == graph::AdapterPart::Up ? "B" : "A"},
            {"scale", adapter.getScale().getValueAsDouble()},
            {"layout", std::move(layout)}};
  }

  llvm::Error describeParameter(StringRef name, RankedTensorType local) {
    auto op = symbols->lookup<graph::ParameterOp>(name);
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
    if (ArrayRef<int64_t> filled = graph::filledOf(op);
        filled != view.getShape() && filled != file.getShape())
      entry["filled"] = filled;
    entry["trainable"] = op.getTrainable();
    entry["adapter"] = describeAdapter(op);
    entry["storage_dtype"] = dtypeOf(local.getElementType());
    entry["init"] = std::move(init);
    return llvm::Error::success();
  }

  const PackageInputs &inputs;
  std::unique_ptr<SymbolTable> symbols; ///< of the module that is being described
  sharding::Mesh mesh;
  llvm::StringSet<> listed;
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

llvm::Expected<Json> describeModules(const PackageInputs &inputs) {
  Description description(inputs);
  for (const Role &role : inputs.roles)
    if (llvm::Error error = description.add(role.module))
      return std::move(error);
  return description.take();
}

Json countCollectives(ArrayRef<Role> roles) {
  static constexpr std::array<const char *, 7> kNames = {
      "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "recv", "send"};
  constexpr size_t kReceive = 5, kSend = 6;
  std::array<int64_t, kNames.size()> most{};
  for (const Role &role : roles) {
    std::array<int64_t, kNames.size()> counts{};
    forEachExecuted(*role.program, [&](const rt::fbs::InstructionT &instruction) {
      if (const rt::fbs::MessageT *message = instruction.op.AsMessage())
        ++counts[message->kind == rt::fbs::MessageKind::Send ? kSend : kReceive];
      const rt::fbs::CollectiveT *op = instruction.op.AsCollective();
      if (op && op->kind <= rt::fbs::CollectiveKind::Permute) // a slice is no communication
        ++counts[static_cast<size_t>(op->kind)];
    });
    for (auto [count, total] : llvm::zip_equal(counts, most))
      total = std::max(total, count);
  }
  Json result = Json::object();
  for (auto [name, count] : llvm::zip_equal(kNames, most))
    result[name] = count;
  return result;
}

Json countEpilogues(ArrayRef<Role> roles) {
  std::map<std::string, int64_t> most;
  for (const Role &role : roles) {
    std::map<std::string, int64_t> counts;
    forEachExecuted(*role.program, [&](const rt::fbs::InstructionT &instruction) {
      const auto *matmul = instruction.op.AsMatmul();
      if (matmul && matmul->epilogue != rt::fbs::Epilogue::None)
        ++counts[rt::fbs::EnumNameEpilogue(matmul->epilogue)];
    });
    for (auto &[name, count] : counts)
      most[name] = std::max(most[name], count);
  }
  return most.empty() ? Json::object() : Json(most);
}

Json countLibraryCalls(ArrayRef<Role> roles) {
  int64_t mostMatmuls = 0, mostConvolutions = 0, mostAttentions = 0;
  for (const Role &role : roles) {
    int64_t matmuls = 0, convolutions = 0, attentions = 0;
    forEachExecuted(*role.program, [&](const rt::fbs::InstructionT &instruction) {
      matmuls += instruction.op.AsMatmul() != nullptr;
      convolutions += instruction.op.AsConv() != nullptr;
      attentions += instruction.op.AsAttention() != nullptr;
    });
    mostMatmuls = std::max(mostMatmuls, matmuls);
    mostConvolutions = std::max(mostConvolutions, convolutions);
    mostAttentions = std::max(mostAttentions, attentions);
  }
  Json counts = Json::object();
  if (mostMatmuls)
    counts["matmul"] = mostMatmuls;
  if (mostConvolutions)
    counts["convolution"] = mostConvolutions;
  if (mostAttentions)
    counts["attention"] = mostAttentions;
  return counts;
}

} // namespace dtc::package
