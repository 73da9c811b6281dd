#include "ExporterChanges.h"
#include "Subgraphs.h"
#include "dtc/Import/Build/Host.h"
#include "dtc/Import/Unsupported.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

#include <set>

using namespace mlir;

namespace dtc::import {

static constexpr const char *kKind = "pkg.torch.export.graph_signature.InputSpec.kind";

std::string recordedKind(const onnx::ValueInfoProto &info) {
  return metadata(info.metadata_props(), kKind);
}

llvm::StringMap<const onnx::TensorProto *> initializers(const Model &model) {
  llvm::StringMap<const onnx::TensorProto *> result;
  for (const auto &tensor : model.graph().initializer())
    result[tensor.name()] = &tensor;
  return result;
}

static std::string ownerOf(StringRef name) { return name.rsplit('.').first.str(); }

namespace {
/// Decides kinds from what is recorded, else from how tensors are used.
class Classifier {
public:
  Classifier(const Model &model, const Readers &readers) : model(model), readers(readers) {
    const auto stored = initializers(model);
    for (const auto &input : model.graph().input())
      if (!stored.contains(input.name()) && !isWeightKind(recordedKind(input)))
        dependent.insert(input.name());
    for (const onnx::NodeProto *node : model.nodes)
      if (llvm::any_of(readNames(*node),
                       [&](const auto &name) { return dependent.contains(name); }))
        for (const std::string &name : node->output())
          dependent.insert(name);
    findTrained();
    isOlderExport =
        model.proto->producer_name() == "pytorch" &&
        llvm::all_of(model.nodes, [](const auto *node) { return hasOlderName(*node); }) &&
        llvm::none_of(stored, [](const auto &each) { return isOfOptimizer(each.first()); });
  }

  static bool isWeightKind(const std::string &kind) {
    return kind == "PARAMETER" || kind == "BUFFER";
  }

  void decide(FileTensor &tensor, const std::string &kind) {
    const bool isFloat = isa<FloatType>(tensor.element);
    tensor.kindRecorded = isWeightKind(kind);
    const bool setting = (tensor.weight.shape.empty() && !isStateOfModule(tensor.name)) ||
                         onlySetsSizes(tensor.name);
    const bool small = tensor.weight.size <= uint64_t(kConstantLimit);
    const bool empty = llvm::is_contained(tensor.weight.shape, 0);
    if (empty || (tensor.weight.data && ((!isFloat && small) || (setting && kind != "PARAMETER"))))
      tensor.kind = TensorKind::Constant;
    else if (kind == "BUFFER" || !isFloat)
      tensor.kind = TensorKind::Buffer;
    else if (kind != "PARAMETER" && !trained.contains(tensor.name))
      tensor.kind = TensorKind::Buffer;
    tensor.trainable = tensor.kind == TensorKind::Parameter;
  }

  /// Whether nothing but sizes depends on the tensor.
  bool onlySetsSizes(const std::string &name) const {
    ArrayRef<TensorUse> uses = readers.of(name);
    return !uses.empty() && llvm::all_of(uses, [](const TensorUse &use) {
      const std::string &op = use.node->op_type();
      return (op == "Resize" || op == "Upsample") && use.input >= 1;
    });
  }

  /// Further names of tied tensors. One is a parameter in the signature that has no tensor, whose
  /// module reads another module's tensor of the same last name. The others are what Identity nodes
  /// call the tensor.
  void findAliases(std::vector<FileTensor> &tensors) const {
    llvm::StringMap<FileTensor *> byName;
    for (FileTensor &tensor : tensors)
      byName[tensor.name] = &tensor;
    // By the name that a module's own parameter would have: tensors of others that it reads.
    llvm::StringMap<llvm::SetVector<FileTensor *>> readFromOthers;
    for (const onnx::NodeProto *node : model.nodes) {
      const std::string module = moduleOf(*node);
      for (const std::string &name : node->input())
        if (FileTensor *tensor = byName.lookup(name); tensor && ownerOf(name) != module)
          readFromOthers[module + "." + StringRef(name).rsplit('.').second.str()].insert(tensor);
    }
    llvm::StringSet<> seen;
    for (const std::string &target : signatureParameters(model))
      if (!byName.contains(target) && seen.insert(target).second)
        if (auto found = readFromOthers.find(target); found != readFromOthers.end())
          for (FileTensor *tensor : found->second)
            tensor->aliases.push_back(target);
    for (FileTensor &tensor : tensors)
      if (tensor.trainable)
        addRenamings(tensor);
  }

private:
  /// Whether a scalar is a tensor of the module, such as a temperature. PyTorch's older exporter
  /// has the module's own tensors as initializers, and other numbers as Constant nodes or under
  /// names of its own. A scalar that is only compared or chosen, such as the value of a mask, is a
  /// setting all the same.
  bool isStateOfModule(const std::string &name) const {
    static const std::set<std::string> arithmetic = {
        "Add",     "Sub",      "Mul",  "Div", "Exp",   "Log",    "Neg",     "Abs",      "Sqrt",
        "Sigmoid", "Softplus", "Tanh", "Pow", "PRelu", "Expand", "Reshape", "Unsqueeze"};
    return isOlderExport && !isComputed(name) && trained.contains(name) &&
           llvm::all_of(readers.of(name), [](const TensorUse &use) {
             return arithmetic.count(use.node->op_type()) && (use.input == 0 || takesTwo(use));
           });
  }

  /// "/m/h.0/attn/MatMul_1", or "Constant_12" of a node outside of modules.
  static bool hasOlderName(const onnx::NodeProto &node) {
    return StringRef(node.name()).starts_with("/") ||
           StringRef(node.name()).starts_with(node.op_type() + "_");
  }

  /// Optimizers of files make initializers of Constant nodes, which then look like the module's
  /// own.
  static bool isOfOptimizer(StringRef name) {
    return name.contains('/') || name.starts_with("ortshared");
  }

  /// Whether both inputs of the operator are values: the second one of others is a setting.
  static bool takesTwo(const TensorUse &use) {
    static const std::set<std::string> ops = {"Add", "Sub", "Mul", "Div", "PRelu"};
    return ops.count(use.node->op_type()) > 0;
  }

  /// Identity nodes give one tensor the names of several modules.
  void addRenamings(FileTensor &tensor) const {
    llvm::StringSet<> known;
    for (const std::string &alias : tensor.aliases)
      known.insert(alias);
    const StringRef last = StringRef(tensor.name).rsplit('.').second;
    for (const std::string &name : readers.namesOf(tensor.name))
      if (ownerOf(name) != ownerOf(tensor.name) && StringRef(name).rsplit('.').second == last &&
          known.insert(name).second)
        tensor.aliases.push_back(name);
  }

  /// Notes the values that a gradient can reach, from the last node to the first.
  void findTrained() {
    for (const onnx::NodeProto *node : llvm::reverse(model.nodes)) {
      const bool passes =
          !endsGradient(*node) &&
          (llvm::any_of(readNames(*node),
                        [&](const auto &name) { return dependent.contains(name); }) ||
           llvm::any_of(node->output(), [&](const auto &name) { return trained.contains(name); }));
      const std::vector<std::string> read = readNames(*node);
      for (size_t i = node->input_size(); i < read.size() && passes; ++i)
        trained.insert(read[i]); // by the graphs inside of it
      for (int i = 0; i < node->input_size(); ++i) {
        const bool isStatistic = node->op_type() == "BatchNormalization" && i >= 3;
        const bool isTable = node->op_type() == "Gather" && i == 0;
        if (!isStatistic && (passes || isTable))
          trained.insert(node->input(i));
      }
    }
  }

  /// Operators through which no gradient comes back, or only that of a rotary table.
  bool endsGradient(const onnx::NodeProto &node) const {
    static const std::set<std::string> ops = {"Cos",         "Sin",     "Equal",
                                              "Less",        "Greater", "LessOrEqual",
                                              "GreaterOrEqual", "Shape", "Size"};
    if (node.op_type() == "Cast")
      for (const auto &attribute : node.attribute())
        if (attribute.name() == "to")
          return !isa_and_nonnull<FloatType>(
              elementType(model.location.getContext(), attribute.i()));
    return ops.contains(node.op_type());
  }

  const Model &model;
  const Readers &readers;
  bool isOlderExport = false;      ///< as PyTorch's older exporter wrote it
  std::set<std::string> dependent; ///< values that depend on data
  std::set<std::string> trained;   ///< values that a gradient can reach, as far as a file tells
};
} // namespace

/// A graph input that PyTorch's exporter marked as a parameter or buffer.
static FailureOr<FileTensor> weightInput(const Model &model, const onnx::ValueInfoProto &input) {
  FileTensor tensor;
  tensor.name = input.name();
  const auto &type = input.type().tensor_type();
  tensor.element = elementType(model.location.getContext(), type.elem_type());
  if (!tensor.element)
    return LogicalResult(unsupported(emitError(model.location))
                         << "the input " << input.name() << " has an unsupported type");
  tensor.weight.dtype = safetensorsName(tensor.element);
  for (const auto &dim : type.shape().dim()) {
    if (dim.dim_value() <= 0)
      return LogicalResult(emitError(model.location)
                           << "the weight " << input.name() << " has no fixed shape");
    tensor.weight.shape.push_back(dim.dim_value());
  }
  if (failed(checkShape(model, tensor.weight.shape, "the weight " + input.name())))
    return failure();
  return tensor;
}

static const onnx::TensorProto *constantOf(const onnx::NodeProto &node) {
  if (node.op_type() == "Constant" && isDefaultDomain(node.domain()) && node.output_size() == 1)
    for (const auto &attribute : node.attribute())
      if (attribute.name() == "value")
        return &attribute.t();
  return nullptr;
}

/// Constant nodes that hold what other files have as initializers: tensors too large to be computed
/// with. Where no initializer is a weight they are the weights. So are smaller ones of several
/// elements that a gradient reaches. All others are buffers.
static LogicalResult addConstants(const Model &model, const llvm::StringMap<bool> &live,
                                  Classifier &classifier, TensorReader &reader,
                                  std::vector<FileTensor> &tensors) {
  const bool hasWeights =
      llvm::any_of(tensors, [](const FileTensor &tensor) { return tensor.trainable; });
  std::vector<FileTensor> found;
  bool anyLarge = false;
  for (const onnx::NodeProto *node : model.nodes) {
    const onnx::TensorProto *constant = constantOf(*node);
    if (!constant || !live.contains(node->output(0)))
      continue;
    auto weight = reader.read(*constant);
    if (failed(weight))
      return failure();
    FileTensor tensor;
    tensor.name = node->output(0);
    tensor.element = elementType(model.location.getContext(), constant->data_type());
    tensor.weight = *weight;
    const bool large = tensor.weight.size > uint64_t(kConstantLimit);
    anyLarge |= large;
    classifier.decide(tensor, large && hasWeights ? "BUFFER" : "");
    tensor.kindRecorded = false;
    const bool several = llvm::any_of(tensor.weight.shape, [](int64_t size) { return size > 1; });
    if (large || (tensor.trainable && several && !hasWeights))
      found.push_back(std::move(tensor));
  }
  if (anyLarge)
    llvm::append_range(tensors, found);
  return success();
}

FailureOr<std::vector<FileTensor>> classifyTensors(const Model &model,
                                                   const ImportOptions &options,
                                                   const llvm::StringMap<bool> &live,
                                                   TensorReader &reader) {
  llvm::StringMap<std::string> kinds;
  for (const auto &info : model.graph().value_info())
    kinds[info.name()] = recordedKind(info);
  for (const auto &info : model.graph().input())
    if (std::string kind = recordedKind(info); !kind.empty())
      kinds[info.name()] = kind;
  if (model.graph().sparse_initializer_size() > 0)
    return LogicalResult(unsupported(emitError(model.location))
                         << "sparse initializers are not supported");
  const Readers readers(model);
  Classifier classifier(model, readers);
  std::vector<FileTensor> tensors;
  llvm::StringSet<> names;
  for (const auto &initializer : model.graph().initializer()) {
    names.insert(initializer.name());
    auto weight = reader.read(initializer);
    if (failed(weight))
      return failure();
    if (!live.contains(initializer.name()))
      continue;
    FileTensor tensor;
    tensor.name = initializer.name();
    tensor.element = elementType(model.location.getContext(), initializer.data_type());
    tensor.weight = *weight;
    classifier.decide(tensor, kinds.lookup(tensor.name));
    tensors.push_back(std::move(tensor));
  }
  for (const auto &input : model.graph().input()) {
    const std::string kind = recordedKind(input);
    if (names.contains(input.name()) || !Classifier::isWeightKind(kind) ||
        !live.contains(input.name()))
      continue;
    auto tensor = weightInput(model, input);
    if (failed(tensor))
      return failure();
    classifier.decide(*tensor, kind);
    tensors.push_back(std::move(*tensor));
  }
  if (failed(addConstants(model, live, classifier, reader, tensors)))
    return failure();
  if (failed(reader.checkOverlaps()) || failed(applyPatterns(model.location, options, tensors)) ||
      failed(checkExporterChanges(model, options, readers, live, tensors)))
    return failure();
  classifier.findAliases(tensors);
  return tensors;
}

} // namespace dtc::import
