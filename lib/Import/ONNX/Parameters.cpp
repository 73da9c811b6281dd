#include "Parameters.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Regex.h"

#include <set>

using namespace mlir;

namespace dtc::import {

static constexpr const char *kKind = "pkg.torch.export.graph_signature.InputSpec.kind";
static constexpr const char *kSignature = "pkg.torch.export.ExportedProgram.graph_signature";
static constexpr const char *kScopes = "pkg.torch.onnx.name_scopes";

std::string recordedKind(const onnx::ValueInfoProto &info) {
  return metadata(info.metadata_props(), kKind);
}

llvm::StringMap<const onnx::TensorProto *> initializers(const Model &model) {
  llvm::StringMap<const onnx::TensorProto *> result;
  for (const auto &tensor : model.graph().initializer())
    result[tensor.name()] = &tensor;
  return result;
}

/// The targets of lines `p_NAME: PARAMETER target='m.x.weight'`.
static std::vector<std::string> signatureParameters(const Model &model) {
  std::vector<std::string> targets;
  const std::string text = metadata(model.graph().metadata_props(), kSignature);
  SmallVector<StringRef> lines;
  StringRef(text).split(lines, '\n');
  for (StringRef line : lines) {
    auto [head, tail] = line.split(": PARAMETER target='");
    if (!tail.empty())
      targets.push_back(tail.split('\'').first.str());
  }
  return targets;
}

/// The module a node belongs to: in `['', 'm', 'm.wte', 'embedding']` it is m.wte.
static std::string moduleOf(const onnx::NodeProto &node) {
  const std::string scopes = metadata(node.metadata_props(), kScopes);
  SmallVector<StringRef> parts;
  StringRef(scopes).trim("[]").split(parts, ',');
  return parts.size() < 2 ? "" : parts[parts.size() - 2].trim(" '\"").str();
}

static std::string ownerOf(StringRef name) { return name.rsplit('.').first.str(); }

namespace {
/// Decides kinds from what is recorded, else from how tensors are used.
class Classifier {
public:
  explicit Classifier(const Model &model) : model(model) {
    for (const onnx::NodeProto *node : model.nodes)
      for (int i = 0; i < node->input_size(); ++i)
        readers[node->input(i)].push_back({node, i});
    const auto stored = initializers(model);
    for (const auto &input : model.graph().input())
      if (!stored.contains(input.name()) && !isWeightKind(recordedKind(input)))
        dependent.insert(input.name());
    for (const onnx::NodeProto *node : model.nodes)
      if (llvm::any_of(node->input(), [&](const auto &name) { return dependent.contains(name); }))
        for (const std::string &name : node->output())
          dependent.insert(name);
  }

  static bool isWeightKind(const std::string &kind) {
    return kind == "PARAMETER" || kind == "BUFFER";
  }

  void decide(FileTensor &tensor, const std::string &kind) {
    const bool isFloat = isa<FloatType>(tensor.element);
    tensor.kindRecorded = isWeightKind(kind);
    const bool setting = tensor.weight.shape.empty() || onlySetsSizes(tensor.name);
    if (tensor.weight.data && (!isFloat || (setting && kind != "PARAMETER")))
      tensor.kind = TensorKind::Constant;
    else if (kind == "BUFFER" || !isFloat)
      tensor.kind = TensorKind::Buffer;
    else if (kind != "PARAMETER" && !isTrained(tensor.name))
      tensor.kind = TensorKind::Buffer;
    tensor.trainable = tensor.kind == TensorKind::Parameter;
  }

  /// Whether nothing but sizes depends on the tensor.
  bool onlySetsSizes(const std::string &name) const {
    auto found = readers.find(name);
    return found != readers.end() && llvm::all_of(found->second, [](const auto &reader) {
             return reader.first->op_type() == "Resize" && reader.second >= 1;
           });
  }

  /// Nodes that add it or scale by it, as norms and biases do.
  std::vector<std::string> normsAndBiases(const std::string &name) const {
    std::vector<std::string> nodes;
    auto found = readers.find(name);
    if (found == readers.end())
      return nodes;
    for (auto [node, index] : found->second) {
      const std::string &op = node->op_type();
      const bool norm = StringRef(op).ends_with("Normalization") && (index == 1 || index == 2);
      const bool bias = (op == "Gemm" || op == "Conv") && index == 2;
      if (norm || bias || op == "Add" || op == "Mul")
        nodes.push_back(node->name());
    }
    return nodes;
  }

  /// Further names of tied tensors: a parameter in the signature that has no
  /// tensor, whose module reads another module's tensor of the same last name.
  void findAliases(std::vector<FileTensor> &tensors) const {
    llvm::StringMap<FileTensor *> byName;
    for (FileTensor &tensor : tensors)
      byName[tensor.name] = &tensor;
    for (const std::string &target : signatureParameters(model)) {
      if (byName.contains(target))
        continue;
      for (const onnx::NodeProto *node : model.nodes) {
        if (moduleOf(*node) != ownerOf(target))
          continue;
        for (const std::string &name : node->input())
          if (FileTensor *tensor = byName.lookup(name);
              tensor && ownerOf(name) != ownerOf(target) &&
              StringRef(name).rsplit('.').second == StringRef(target).rsplit('.').second &&
              !llvm::is_contained(tensor->aliases, target))
            tensor->aliases.push_back(target);
      }
    }
  }

  bool signatureIsComplete(const std::vector<FileTensor> &tensors) const {
    std::set<std::string> names;
    for (const FileTensor &tensor : tensors)
      names.insert(tensor.name);
    const auto targets = signatureParameters(model);
    return !targets.empty() &&
           llvm::all_of(targets, [&](const auto &name) { return names.contains(name); });
  }

private:
  /// Without recorded kinds: whether a gradient can reach the tensor.
  bool isTrained(const std::string &name) const {
    std::set<std::string> seen;
    std::vector<std::string> open = {name};
    while (!open.empty()) {
      const std::string value = open.back();
      open.pop_back();
      if (!seen.insert(value).second || !readers.contains(value))
        continue;
      for (auto [node, index] : readers.at(value)) {
        if (node->op_type() == "BatchNormalization" && index >= 3)
          continue;
        if (node->op_type() == "Gather" && index == 0)
          return true;
        if (endsGradient(*node))
          continue;
        if (llvm::any_of(node->input(), [&](const auto &i) { return dependent.contains(i); }))
          return true;
        open.insert(open.end(), node->output().begin(), node->output().end());
      }
    }
    return false;
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
  std::map<std::string, std::vector<std::pair<const onnx::NodeProto *, int>>> readers;
  std::set<std::string> dependent; ///< values that depend on data
};
} // namespace

/// Initializers that an optimizing exporter merged because they were equal, and those that it
/// folded weights into, which no parameter of the exported module is.
static LogicalResult checkMerged(const Model &model, const ImportOptions &options,
                                 const Classifier &classifier,
                                 const std::vector<FileTensor> &tensors) {
  const bool anyRecorded =
      llvm::any_of(tensors, [](const FileTensor &tensor) { return tensor.kindRecorded; });
  if (options.allowMerged || classifier.signatureIsComplete(tensors))
    return success();
  std::vector<std::string> merged, folded;
  for (const FileTensor &tensor : tensors) {
    if (!tensor.trainable)
      continue;
    const bool shared = tensor.weight.shape.size() == 1 &&
                        classifier.normsAndBiases(tensor.name).size() > 1;
    if (shared)
      merged.push_back(tensor.name);
    else if (anyRecorded && !tensor.kindRecorded)
      folded.push_back(tensor.name);
  }
  if (merged.empty() && folded.empty())
    return success();
  InFlightDiagnostic diagnostic =
      options.training ? emitError(model.location) : emitWarning(model.location);
  if (!merged.empty()) {
    diagnostic << "several norms or biases are one tensor, training would tie them: export with "
                  "optimize=False if the exporter merged equal ones, or pass --allow-merged: ";
    llvm::interleaveComma(merged, diagnostic);
  }
  if (!folded.empty()) {
    diagnostic << (merged.empty() ? "" : "; ")
               << "the exporter has folded weights into tensors that are no parameters: export "
                  "with optimize=False, or pass --allow-merged: ";
    llvm::interleaveComma(folded, diagnostic);
  }
  return failure(options.training);
}

/// --freeze and --train.
static LogicalResult applyPatterns(const Model &model, const ImportOptions &options,
                                   std::vector<FileTensor> &tensors) {
  for (const auto &[pattern, trains] :
       {std::pair(options.freeze, false), std::pair(options.train, true)}) {
    if (!pattern)
      continue;
    llvm::Regex regex(*pattern);
    std::string why;
    if (!regex.isValid(why))
      return emitError(model.location) << "bad regular expression (" << why << "): " << *pattern;
    bool matched = false;
    for (FileTensor &tensor : tensors)
      if (tensor.kind != TensorKind::Constant && isa<FloatType>(tensor.element) &&
          regex.match(tensor.name)) {
        matched = true;
        tensor.trainable = trains;
        if (trains)
          tensor.kind = TensorKind::Parameter;
      }
    if (!matched)
      return emitError(model.location) << "no parameter matches the regular expression: "
                                       << *pattern;
  }
  return success();
}

/// A graph input that PyTorch's exporter marked as a parameter or buffer.
static FailureOr<FileTensor> weightInput(const Model &model, const onnx::ValueInfoProto &input) {
  FileTensor tensor;
  tensor.name = input.name();
  const auto &type = input.type().tensor_type();
  tensor.element = elementType(model.location.getContext(), type.elem_type());
  if (!tensor.element)
    return LogicalResult(emitError(model.location)
                         << "the input " << input.name() << " has an unsupported type");
  tensor.weight.dtype = safetensorsName(tensor.element);
  for (const auto &dim : type.shape().dim()) {
    if (dim.dim_value() <= 0)
      return LogicalResult(emitError(model.location)
                           << "the weight " << input.name() << " has no fixed shape");
    tensor.weight.shape.push_back(dim.dim_value());
  }
  return tensor;
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
    return LogicalResult(emitError(model.location) << "sparse initializers are not supported");
  Classifier classifier(model);
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
  if (failed(reader.checkOverlaps()) || failed(applyPatterns(model, options, tensors)) ||
      failed(checkMerged(model, options, classifier, tensors)))
    return failure();
  classifier.findAliases(tensors);
  return tensors;
}

} // namespace dtc::import
