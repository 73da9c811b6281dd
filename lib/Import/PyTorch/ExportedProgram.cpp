#include "ExportedProgram.h"

#include "Schema.h"

#include "dtc-io/CheckedSize.h"
#include "dtc-io/ZipFile.h"
#include "dtc/Import/Build/Host.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace dtc::import {

/// What the member that describes the program may take: JSON takes some thirty times its text.
static constexpr uint64_t kMostText = uint64_t(1) << 30;

namespace {

/// The open archive, and the tensors of the program on their way out of it.
class Archive {
public:
  Archive(Location file, Budget &budget) : file(file), budget(budget) {}

  LogicalResult open(const std::string &path);
  FailureOr<AtenGraph> read();

private:
  InFlightDiagnostic refuse() const { return emitError(file); }
  bool has(const std::string &member) const { return zip->members().contains(root + member); }
  FailureOr<std::string> text(const std::string &member) const;
  LogicalResult checkFormat() const;
  FailureOr<Payloads> payloads(const std::string &folder, const std::string &kind) const;
  FailureOr<AtenTensor> tensorOf(const NamedTensor &named, const Payloads &payloads,
                                 const std::string &folder);
  LogicalResult locate(const Payload &payload, const std::string &folder, FileTensor &tensor);
  LogicalResult tie(AtenGraph &graph) const;

  Location file;
  Budget &budget;
  std::optional<io::ZipFile> zip;
  std::shared_ptr<io::MappedFile> owner;
  std::string root, model; ///< the folder that holds everything; the program's name
};

} // namespace

LogicalResult Archive::open(const std::string &path) {
  std::string why;
  std::optional<io::MappedFile> mapped = io::MappedFile::open(path, why);
  if (!mapped)
    return refuse() << "cannot be read (" << why << ")";
  owner = std::make_shared<io::MappedFile>(*mapped);
  zip = io::ZipFile::open(*mapped, why);
  if (!zip)
    return refuse() << StringRef(why).drop_front(std::min(why.size(), path.size() + 2));
  for (const auto &[name, member] : zip->members()) {
    auto [folder, rest] = StringRef(name).split('/');
    if (rest == "archive_format")
      root = (folder + "/").str();
  }
  return checkFormat();
}

FailureOr<std::string> Archive::text(const std::string &member) const {
  auto found = zip->members().find(root + member);
  if (found == zip->members().end())
    return LogicalResult(refuse() << "is no exported program; it lacks the member " << root
                                  << member);
  if (found->second.size > kMostText)
    return LogicalResult(refuse() << root << member << ": is too large: " << found->second.size);
  std::string why;
  auto bytes = zip->extract(root + member, why);
  if (!bytes)
    return LogicalResult(refuse() << StringRef(why).drop_front(zip->file().path().size() + 2));
  return std::string(bytes->begin(), bytes->end());
}

LogicalResult Archive::checkFormat() const {
  if (root.empty())
    return refuse() << "is no exported program, which PyTorch's .pt files aren't; save it with "
                       "torch.export.save of PyTorch 2.8 or later";
  auto format = text("archive_format");
  if (failed(format))
    return failure();
  if (*format != "pt2")
    return refuse() << "is an archive of another format: " << *format;
  auto order = has("byteorder") ? text("byteorder") : FailureOr<std::string>(std::string("little"));
  if (failed(order))
    return failure();
  return *order == "little" ? success() : refuse() << "stores bytes in the order " << *order;
}

FailureOr<Payloads> Archive::payloads(const std::string &folder, const std::string &kind) const {
  const std::string member = folder + model + "_" + kind + "_config.json";
  if (!has(member))
    return Payloads();
  auto config = text(member);
  if (failed(config))
    return failure();
  std::string why;
  auto parsed = parsePayloads(*config, file.getContext(), why);
  if (!parsed)
    return LogicalResult(refuse() << root << member << ": " << why);
  return *parsed;
}

/// Whether elements lie one after the other, the last dimension's first.
static bool isRowMajor(const std::vector<int64_t> &shape, const std::vector<int64_t> &strides) {
  io::CheckedSize step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && (!step || strides[i] != *step))
      return false;
    step = step * io::CheckedSize(shape[i]);
  }
  return true;
}

/// Finds the bytes. A storage without any bytes is of a fake tensor: there is no data.
LogicalResult Archive::locate(const Payload &payload, const std::string &folder,
                              FileTensor &tensor) {
  const std::string member = root + folder + payload.member;
  auto found = zip->members().find(member);
  if (found == zip->members().end())
    return refuse() << "the tensor " << tensor.name
                    << " lies in a member that is not there: " << member;
  if (!found->second.stored)
    return refuse() << "the tensor " << tensor.name << " is compressed: " << member;
  if (found->second.size == 0)
    return success();
  const TensorMeta &meta = payload.meta;
  if (meta.strides.size() != tensor.weight.shape.size() || meta.offset < 0 ||
      !isRowMajor(tensor.weight.shape, meta.strides))
    return refuse() << "the tensor " << tensor.name
                    << " is not stored row by row; make it contiguous before the export";
  const io::CheckedSize begin = io::CheckedSize(meta.offset) * elementBytes(tensor.element);
  const io::CheckedSize end = begin + io::CheckedSize(int64_t(tensor.weight.size));
  if (!end.isAtMost(int64_t(found->second.size)))
    return refuse() << "the tensor " << tensor.name << " needs more bytes than the "
                    << found->second.size << " of " << member;
  tensor.weight.data =
      reinterpret_cast<const std::byte *>(zip->bytes(found->second).data()) + *begin;
  tensor.weight.owner = owner;
  return success();
}

/// Floats of parameters train as the module says; small integers and single numbers are computed
/// with while importing.
static void decideKind(FileTensor &tensor, bool requiresGrad) {
  const bool isFloat = isa<FloatType>(tensor.element);
  const bool small = tensor.weight.size <= uint64_t(kConstantLimit);
  const bool single = tensor.weight.shape.empty();
  tensor.kindRecorded = tensor.kind != TensorKind::Constant;
  const bool folds = tensor.weight.data && small && tensor.kind != TensorKind::Parameter &&
                     (!isFloat || single || tensor.kind == TensorKind::Constant);
  if (folds)
    tensor.kind = TensorKind::Constant;
  else if (tensor.kind == TensorKind::Constant || !isFloat)
    tensor.kind = TensorKind::Buffer;
  tensor.trainable = tensor.kind == TensorKind::Parameter && requiresGrad;
}

FailureOr<AtenTensor> Archive::tensorOf(const NamedTensor &named, const Payloads &payloads,
                                        const std::string &folder) {
  auto found = payloads.find(named.name);
  if (found == payloads.end())
    return LogicalResult(refuse() << "does not say where the tensor " << named.name << " lies");
  const Payload &payload = found->second;
  if (payload.pickled)
    return LogicalResult(refuse() << "the tensor " << named.name
                                  << " is a pickle of a class of its own, which is not read");
  AtenTensor result{named.value, {}};
  FileTensor &tensor = result.tensor;
  tensor.name = named.name;
  tensor.kind = named.kind;
  tensor.element = payload.meta.element;
  if (!tensor.element)
    return LogicalResult(refuse() << "the tensor " << named.name << " has an unsupported type");
  for (const FileDim &dim : payload.meta.dims)
    tensor.weight.shape.push_back(dim.size.value_or(-1));
  if (const std::string wrong = describeBadShape(tensor.weight.shape); !wrong.empty())
    return LogicalResult(refuse() << "the tensor " << named.name << " " << wrong);
  tensor.weight.dtype = safetensorsName(tensor.element);
  tensor.weight.size =
      *(io::CheckedSize::product(tensor.weight.shape) * elementBytes(tensor.element));
  if (failed(locate(payload, folder, tensor)))
    return failure();
  decideKind(tensor, payload.meta.requiresGrad);
  return result;
}

/// Tensors that are one storage are one tensor. Which name it has: the one that the program reads.
LogicalResult Archive::tie(AtenGraph &graph) const {
  std::vector<AtenTensor *> order;
  for (AtenTensor &each : graph.tensors)
    if (each.tensor.weight.data && each.tensor.weight.size > 0)
      order.push_back(&each);
  llvm::stable_sort(order, [](const AtenTensor *a, const AtenTensor *b) {
    return a->tensor.weight.data < b->tensor.weight.data;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const Weight &before = order[i - 1]->tensor.weight, &weight = order[i]->tensor.weight;
    const bool same =
        before.data == weight.data && before.shape == weight.shape && before.dtype == weight.dtype;
    if (!same && weight.data < before.data + before.size)
      return refuse() << "the tensors " << order[i - 1]->tensor.name << " and "
                      << order[i]->tensor.name << " share some of their elements";
  }
  return success();
}

FailureOr<AtenGraph> Archive::read() {
  for (const auto &[name, member] : zip->members()) {
    StringRef rest = name;
    if (!rest.consume_front(root + "models/") || !rest.consume_back(".json"))
      continue;
    if (!model.empty())
      return LogicalResult(refuse() << "has several programs: " << model << " and " << rest);
    model = rest.str();
  }
  const std::string member = "models/" + model + ".json";
  auto json = text(member);
  if (failed(json))
    return failure();
  std::string why;
  auto program = parseProgram(*json, file.getContext(), budget, why);
  if (!program)
    return LogicalResult(refuse() << root << member << ": " << why);
  const std::string weightsFolder = "data/weights/", constantsFolder = "data/constants/";
  auto weights = payloads(weightsFolder, "weights");
  auto constants = payloads(constantsFolder, "constants");
  if (failed(weights) || failed(constants))
    return failure();
  for (const NamedTensor &named : program->tensors) {
    // Buffers that aren't part of state_dict are stored with the constants.
    const bool isWeight = weights->contains(named.name);
    auto tensor = tensorOf(named, isWeight ? *weights : *constants,
                           isWeight ? weightsFolder : constantsFolder);
    if (failed(tensor))
      return failure();
    program->graph.tensors.push_back(std::move(*tensor));
  }
  if (failed(tie(program->graph)))
    return failure();
  return std::move(program->graph);
}

FailureOr<AtenGraph> readExportedProgram(const std::string &path, Location file, Budget &budget) {
  Archive archive(file, budget);
  if (failed(archive.open(path)))
    return failure();
  return archive.read();
}

} // namespace dtc::import
