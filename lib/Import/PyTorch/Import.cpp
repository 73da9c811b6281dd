#include "dtc/Import/PyTorch/Import.h"

#include "AtenConverter.h"
#include "Complex.h"
#include "ExportedProgram.h"
#include "InPlace.h"
#include "TorchScript.h"

#include "dtc-io/InputFile.h"
#include "dtc/Import/Build/Forward.h"

#include <cstring>
#include <set>

using namespace mlir;

namespace dtc::import {

/// What tells tensors apart that may be one; empty for those that can't.
using Storage = std::pair<const std::byte *, std::string>;

static Storage storageOf(const AtenTensor &each) {
  const FileTensor &tensor = each.tensor;
  if (tensor.kind == TensorKind::Constant || tensor.weight.size == 0)
    return {};
  return {tensor.weight.data, each.tiedTo};
}

/// The tensors on which the outputs depend. Of those that are one storage the first that is read
/// stays, under its own name. The others are its aliases, and `renamed` says whose values they are.
static std::vector<FileTensor> liveTensors(const AtenGraph &graph,
                                           std::map<std::string, std::string> &names) {
  const auto live = liveValues(graph);
  std::vector<FileTensor> tensors;
  std::map<Storage, size_t> stored;
  for (const AtenTensor &each : graph.tensors) {
    if (!live.contains(each.value))
      continue;
    const FileTensor &tensor = each.tensor;
    if (const Storage storage = storageOf(each); storage != Storage()) {
      auto [found, fresh] = stored.try_emplace(storage, tensors.size());
      if (!fresh) {
        tensors[found->second].aliases.push_back(tensor.name);
        names[each.value] = tensors[found->second].name;
        continue;
      }
    }
    names[each.value] = tensor.name;
    tensors.push_back(tensor);
  }
  for (const AtenTensor &each : graph.tensors)
    if (auto found = stored.find(storageOf(each));
        !live.contains(each.value) && found != stored.end())
      tensors[found->second].aliases.push_back(each.tensor.name);
  return tensors;
}

namespace {

class ProgramFile : public ModelFile {
public:
  ProgramFile(MLIRContext &context, const ImportOptions &options, AtenGraph graph, Budget budget)
      : context(context), options(options), file(FileLineColLoc::get(&context, options.path, 0, 0)),
        graph(std::move(graph)), budget(budget) {}

  FailureOr<ImportedModel> import(std::optional<Samples> samples) const override;

private:
  LogicalResult checkChanges(ArrayRef<BufferChange> changes) const;

  MLIRContext &context;
  ImportOptions options;
  Location file;
  AtenGraph graph;
  Budget budget; ///< what reading the file left
};

} // namespace

/// Buffers that are one storage would have to be changed together.
LogicalResult ProgramFile::checkChanges(ArrayRef<BufferChange> changes) const {
  std::set<std::string> changed;
  for (const BufferChange &change : changes)
    if (!changed.insert(change.buffer).second)
      return emitError(file) << "changes a buffer under several names: " << change.buffer;
  return success();
}

FailureOr<ImportedModel> ProgramFile::import(std::optional<Samples> samples) const {
  Budget left = budget;
  std::map<std::string, std::string> names; // of weights, by value
  std::vector<FileTensor> tensors = liveTensors(graph, names);
  if (failed(applyPatterns(file, options, tensors)))
    return failure();
  std::set<std::string> taken;
  for (const FileTensor &tensor : tensors)
    taken.insert(tensor.name);
  for (const FileInput &input : graph.inputs)
    if (!taken.insert(input.name).second)
      return LogicalResult(emitError(file)
                           << "an input and a weight have the same name: " << input.name);
  auto inputs = bindInputs(file, options, graph.inputs, samples);
  if (failed(inputs))
    return failure();
  Forward forward(context, file);
  llvm::StringMap<Tensor> declared, values;
  if (failed(forward.declare(tensors, *inputs, left, declared)))
    return failure();
  for (const auto &[value, name] : names)
    values[value] = declared.lookup(name);
  for (const FileInput &input : graph.inputs)
    values[input.name] = declared.lookup(input.name);
  Emitter emit = forward.end();
  if (failed(convertAten(graph, emit, values, file, left)))
    return failure();
  std::vector<FileOutput> results;
  for (const std::string &name : graph.outputs) {
    auto found = values.find(name);
    results.push_back({name, found == values.end() ? nullptr : &found->second});
  }
  std::vector<BufferChange> changes;
  for (const auto &[buffer, name] : graph.bufferChanges) {
    auto found = values.find(name);
    changes.push_back({names.at(buffer), found == values.end() ? nullptr : &found->second});
  }
  if (failed(checkChanges(changes)) || failed(forward.finish(results, changes)) ||
      failed(forward.markPaddingRows(options.paddingRows)))
    return failure();
  return forward.raise(*inputs, samples, graph.nodes.size());
}

/// Batch norms that makeFunctional left as they are, by their running means.
static void warnOfFrozenNorms(const AtenGraph &graph, Location file) {
  std::map<std::string, std::string> tensors;
  for (const AtenTensor &each : graph.tensors)
    tensors[each.value] = each.tensor.name;
  std::vector<std::string> means;
  for (const AtenNode &node : graph.nodes)
    if (StringRef(node.op).starts_with("aten.batch_norm") ||
        StringRef(node.op).starts_with("aten._native_batch_norm_legit_no_training"))
      for (const NamedArgument &argument : node.arguments)
        if (const auto *value = argument.value.as<ValueName>();
            value && argument.name == "running_mean")
          means.push_back(tensors[value->name]);
  if (!means.empty())
    emitWarning(file) << means.size()
                      << " batch norms are frozen, as the model was exported in eval "
                      << "mode; --batch-norm train trains them: " << means.front()
                      << (means.size() > 1 ? ", ..." : "");
}

/// Parameters that reach the outputs through detach() and no_grad() alone don't train, under none
/// of their names.
static void freezeDetached(AtenGraph &graph) {
  const auto live = liveValues(graph), trained = liveValues(graph, Dependence::Gradient);
  std::set<Storage> stored;
  for (const AtenTensor &each : graph.tensors)
    if (Storage storage = storageOf(each);
        storage != Storage() && (trained.contains(each.value) || !live.contains(each.value)))
      stored.insert(storage);
  for (AtenTensor &each : graph.tensors)
    if (each.tensor.kind == TensorKind::Parameter && live.contains(each.value) &&
        !trained.contains(each.value) && !stored.contains(storageOf(each))) {
      each.tensor.kind = TensorKind::Buffer;
      each.tensor.trainable = false;
    }
}

bool isExportedProgram(const std::string &path) {
  std::string why;
  std::optional<io::MappedFile> mapped = io::MappedFile::open(path, why);
  constexpr char kMemberHeader[] = {'P', 'K', 3, 4};
  return mapped && mapped->bytes().size() >= sizeof(kMemberHeader) &&
         std::memcmp(mapped->bytes().data(), kMemberHeader, sizeof(kMemberHeader)) == 0;
}

/// The operators of the file, whichever of PyTorch's archives it is.
static FailureOr<AtenGraph> readArchive(ImportOptions &options, Location file, Budget &budget) {
  std::string why;
  std::optional<io::MappedFile> mapped = io::MappedFile::open(options.path, why);
  auto zip = mapped ? io::ZipFile::open(*mapped, why) : std::nullopt;
  auto root = zip ? torchScriptRoot(*zip) : std::nullopt;
  if (!root)
    return readExportedProgram(options.path, options.training, file, budget);
  auto graph = readTorchScript(*zip, *root, options, file, budget);
  options.shapes.clear(); // the module was recorded with them
  return graph;
}

FailureOr<std::unique_ptr<ModelFile>> openExportedProgram(MLIRContext &context,
                                                          const ImportOptions &asked) {
  context.loadDialect<graph::GraphDialect, arith::ArithDialect, func::FuncDialect,
                      math::MathDialect>();
  ImportOptions options = asked;
  Location file = FileLineColLoc::get(&context, options.path, 0, 0);
  Budget budget;
  auto graph = readArchive(options, file, budget);
  if (failed(graph) || failed(separateComplex(*graph, file)) ||
      failed(makeFunctional(*graph, options.batchNorm, file, budget)))
    return failure();
  freezeDetached(*graph);
  if (options.training)
    warnOfFrozenNorms(*graph, file);
  return std::unique_ptr<ModelFile>(
      std::make_unique<ProgramFile>(context, options, std::move(*graph), budget));
}

} // namespace dtc::import
