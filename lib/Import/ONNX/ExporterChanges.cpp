#include "ExporterChanges.h"

#include "ExportHint.h"
#include "Subgraphs.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <cstring>
#include <map>
#include <tuple>

using namespace mlir;

namespace dtc::import {

static constexpr const char *kSignature = "pkg.torch.export.ExportedProgram.graph_signature",
                            *kNode = "pkg.torch.onnx.fx_node";

/// By target the NAME of each line `NAME: PARAMETER target='m.x.weight'`, which the program's nodes
/// call it by.
static std::map<std::string, std::string> signatureNames(const Model &model) {
  std::map<std::string, std::string> names;
  const std::string text = metadata(model.graph().metadata_props(), kSignature);
  SmallVector<StringRef> lines;
  StringRef(text).split(lines, '\n');
  for (StringRef line : lines) {
    auto [head, tail] = line.split(": PARAMETER target='");
    if (!tail.empty())
      names.emplace(tail.split('\'').first.str(), head.trim().str());
  }
  return names;
}

std::vector<std::string> signatureParameters(const Model &model) {
  std::vector<std::string> targets;
  for (const auto &[target, name] : signatureNames(model))
    targets.push_back(target);
  return targets;
}

/// Whether every parameter of the signature has a tensor of its own: then none was merged.
static bool signatureIsComplete(const Model &model, ArrayRef<FileTensor> tensors) {
  llvm::StringSet<> names;
  for (const FileTensor &tensor : tensors)
    names.insert(tensor.name);
  const auto targets = signatureParameters(model);
  return !targets.empty() &&
         llvm::all_of(targets, [&](const auto &name) { return names.contains(name); });
}

/// Whether the node of the program, `%y = call_function[...](args = (%x, %p_weight), ...)`, reads
/// the value of that name.
static bool noteReads(StringRef note, StringRef name) {
  auto isPartOfName = [](char each) { return llvm::isAlnum(each) || each == '_'; };
  const std::string word = "%" + name.str();
  for (size_t at = note.find(word); at != StringRef::npos; at = note.find(word, at + 1))
    if (at + word.size() == note.size() || !isPartOfName(note[at + word.size()]))
      return true;
  return false;
}

/// Whether each tensor of the signature is read by nodes alone that note it: then none was merged.
/// Parameters that no node reads aren't in the file.
static bool isReadAsNoted(const Model &model, ArrayRef<FileTensor> tensors,
                          const Readers &readers) {
  const auto names = signatureNames(model);
  return !names.empty() && llvm::all_of(tensors, [&](const FileTensor &tensor) {
    if (!tensor.trainable)
      return true;
    auto found = names.find(tensor.name);
    return tensor.kindRecorded && found != names.end() && readers.namesOf(tensor.name).empty() &&
           llvm::all_of(readers.of(tensor.name), [&](const TensorUse &use) {
             return noteReads(metadata(use.node->metadata_props(), kNode), found->second);
           });
  });
}

bool isComputed(StringRef name) { return name.starts_with("onnx::"); }

/// Whether a node adds the tensor or scales by it, as norms and biases do.
static bool isNormOrBias(const TensorUse &use) {
  const std::string &op = use.node->op_type();
  const bool norm = StringRef(op).ends_with("Normalization") && (use.input == 1 || use.input == 2);
  const bool bias = (op == "Gemm" || op == "Conv") && use.input == 2;
  return norm || bias || op == "Add" || op == "Mul";
}

/// Whether all elements are equal: as fresh norms, biases and adapters are, by which exporters
/// find them equal to each other.
static bool isUniform(const Weight &weight) {
  uint64_t count = 1;
  for (int64_t size : weight.shape)
    count *= uint64_t(size);
  if (!weight.data || count < 2 || weight.size < 2)
    return false;
  const uint64_t width = weight.size / count;
  return std::memcmp(weight.data, weight.data + width, weight.size - width) == 0;
}

/// The name with each number as one digit: layers.0.linear and layers.11.linear are alike.
static std::string withoutNumbers(StringRef name) {
  std::string text;
  for (char each : name) {
    const bool isDigit = llvm::isDigit(each);
    if (!isDigit || text.empty() || text.back() != '0')
      text += isDigit ? '0' : each;
  }
  return text;
}

/// Whether modules that differ by their number alone read the tensor in the same way: copies of a
/// layer, of which fresh ones are equal. Ties that are meant are of other modules.
static bool isReadByCopies(ArrayRef<TensorUse> uses) {
  std::map<std::tuple<std::string, int, std::string>, std::string> modules;
  return llvm::any_of(uses, [&](const TensorUse &use) {
    const std::string module = moduleOf(*use.node);
    auto [found, isFirst] = modules.try_emplace(
        std::tuple(use.node->op_type(), use.input, withoutNumbers(module)), module);
    return !isFirst && found->second != module;
  });
}

/// Whether a tensor was one of each copy of a layer. What is passed to all copies has one name, and
/// is of another module.
static bool isOfCopies(const FileTensor &tensor, const Readers &readers) {
  ArrayRef<TensorUse> uses = readers.of(tensor.name);
  const std::string owner = StringRef(tensor.name).rsplit('.').first.str();
  auto isOwner = [&](const TensorUse &use) { return moduleOf(*use.node) == owner; };
  if (isComputed(tensor.name) || llvm::any_of(uses, isOwner))
    return isReadByCopies(uses);
  return llvm::any_of(readers.namesOf(tensor.name), [&](const std::string &name) {
    return name != tensor.name && withoutNumbers(name) == withoutNumbers(tensor.name);
  });
}

/// Whether one module reads the tensor, and is only called several times. PyTorch's older exporter
/// gives a tensor that it merges all of its names.
static bool isOfOneModule(const Model &model, const FileTensor &tensor, const Readers &readers) {
  ArrayRef<TensorUse> uses = readers.of(tensor.name);
  if (model.proto->producer_name() != "pytorch" || tensor.kindRecorded || uses.empty() ||
      !readers.namesOf(tensor.name).empty() || isComputed(tensor.name))
    return false;
  const std::string module = moduleOf(*uses.front().node);
  return !module.empty() &&
         llvm::all_of(uses, [&](const TensorUse &use) { return moduleOf(*use.node) == module; });
}

/// Whether training would tie what was separate in the module.
static bool isMerged(const Model &model, const FileTensor &tensor, const Readers &readers) {
  ArrayRef<TensorUse> uses = readers.of(tensor.name);
  if (isOfOneModule(model, tensor, readers))
    return false;
  if (tensor.weight.shape.size() == 1 && llvm::count_if(uses, isNormOrBias) > 1)
    return true;
  return isOfCopies(tensor, readers) || (uses.size() > 1 && isUniform(tensor.weight));
}

static LogicalResult refuseMerged(const Model &model, const ImportOptions &options,
                                  const Readers &readers, ArrayRef<FileTensor> tensors) {
  const bool anyRecorded =
      llvm::any_of(tensors, [](const FileTensor &tensor) { return tensor.kindRecorded; });
  if (options.allowMerged || signatureIsComplete(model, tensors) ||
      isReadAsNoted(model, tensors, readers))
    return success();
  std::vector<std::string> merged, folded;
  for (const FileTensor &tensor : tensors) {
    if (!tensor.trainable)
      continue;
    if (isMerged(model, tensor, readers)) {
      merged.push_back(tensor.name);
      llvm::append_range(merged, readers.namesOf(tensor.name));
    } else if (anyRecorded && !tensor.kindRecorded) {
      folded.push_back(tensor.name);
    }
  }
  if (merged.empty() && folded.empty())
    return success();
  InFlightDiagnostic diagnostic =
      options.training ? emitError(model.location) : emitWarning(model.location);
  if (!merged.empty()) {
    diagnostic << "several weights are one tensor, training would tie them: " << kExport
               << " if the exporter merged equal ones, or pass --allow-merged: ";
    llvm::interleaveComma(merged, diagnostic);
  }
  if (!folded.empty()) {
    diagnostic << (merged.empty() ? "" : "; ")
               << "the exporter has folded weights into tensors that are no parameters: " << kExport
               << ", or pass --allow-merged: ";
    llvm::interleaveComma(folded, diagnostic);
  }
  return failure(options.training);
}

/// Up to three names, and how many more there are.
static std::string someOf(ArrayRef<std::string> names) {
  constexpr size_t shown = 3;
  std::string text = llvm::join(names.take_front(shown), ", ");
  if (names.size() > shown)
    text += " and " + std::to_string(names.size() - shown) + " more";
  return text;
}

static bool isTranspose(const Weight &a, const Weight &b) {
  if (a.shape.size() != 2 || b.shape.size() != 2 || !a.data || !b.data || a.dtype != b.dtype ||
      a.shape[0] != b.shape[1] || a.shape[1] != b.shape[0] || a.size == 0)
    return false;
  const int64_t rows = a.shape[0], columns = a.shape[1];
  const uint64_t width = a.size / uint64_t(rows * columns);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      if (std::memcmp(a.data + (row * columns + column) * width,
                      b.data + (column * rows + row) * width, width) != 0)
        return false;
  return true;
}

/// PyTorch's older exporter and ONNX Runtime's optimizer store the transpose of a tied head beside
/// the embedding. Of a uniform matrix any other of its shape is the transpose.
static void warnOfUntied(const Model &model, ArrayRef<FileTensor> tensors) {
  std::map<std::pair<int64_t, int64_t>, std::vector<const FileTensor *>> before; // by their sizes
  for (const FileTensor &tensor : tensors) {
    ArrayRef<int64_t> shape = tensor.weight.shape;
    if (shape.size() != 2 || !tensor.trainable || isUniform(tensor.weight))
      continue;
    for (const FileTensor *other : before[{shape[1], shape[0]}]) {
      if ((tensor.kindRecorded && other->kindRecorded) ||
          !isTranspose(tensor.weight, other->weight))
        continue;
      const bool isCopy = isComputed(tensor.name) || !isComputed(other->name);
      emitWarning(model.location) << (isCopy ? tensor : *other).name << " is the transpose of "
                                  << (isCopy ? *other : tensor).name
                                  << ": if the module ties them, the exporter has untied them; "
                                  << kExport;
    }
    before[{shape[0], shape[1]}].push_back(&tensor);
  }
}

/// PyTorch's older exporter names what it computed from weights after the operator that reads it.
static void warnOfFolded(const Model &model, ArrayRef<FileTensor> tensors) {
  std::vector<std::string> convolutions, others;
  for (const FileTensor &tensor : tensors)
    if (tensor.trainable && isComputed(tensor.name))
      (StringRef(tensor.name).starts_with("onnx::Conv") ? convolutions : others)
          .push_back(tensor.name);
  if (!convolutions.empty())
    emitWarning(model.location)
        << "the exporter has folded batch norm into the convolutions of " << someOf(convolutions)
        << ": these are trained instead, without any norm; to train the module's own weights "
        << kExport;
  if (!others.empty())
    emitWarning(model.location)
        << "the exporter has transposed or computed weights, which have lost their names and ties: "
        << someOf(others) << "; to keep them " << kExport;
}

static void warnOfFrozenNorms(const Model &model, const llvm::StringMap<bool> &live) {
  std::vector<std::string> norms;
  for (const onnx::NodeProto *node : model.nodes)
    if (node->op_type() == "BatchNormalization" && live.contains(node->output(0)) &&
        !model.trainedNorms.contains(node))
      norms.push_back(node->name().empty() ? node->output(0) : node->name());
  if (!norms.empty())
    emitWarning(model.location)
        << "batch norm is frozen, as the model was exported in eval mode: it normalizes by its "
           "running statistics, which training doesn't update (--batch-norm train: it normalizes "
           "by "
           "the batch, and updates them): "
        << someOf(norms);
}

LogicalResult checkExporterChanges(const Model &model, const ImportOptions &options,
                                   const Readers &readers, const llvm::StringMap<bool> &live,
                                   ArrayRef<FileTensor> tensors) {
  if (failed(refuseMerged(model, options, readers, tensors)))
    return failure();
  warnOfUntied(model, tensors);
  if (options.training) {
    warnOfFolded(model, tensors);
    warnOfFrozenNorms(model, live);
  }
  return success();
}

} // namespace dtc::import
