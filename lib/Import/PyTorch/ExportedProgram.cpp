#include "ExportedProgram.h"

#include "Schema.h"
#include "StoredTensors.h"

#include "dtc-io/ZipFile.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace dtc::import {

/// What the member that describes the program may take: JSON takes some thirty times its text.
static constexpr uint64_t kMostText = uint64_t(1) << 30;

/// Written by the package `dtc` where a program has no weights, as fake tensors all have one
/// storage.
static constexpr char kTiesMember[] = "extra/tied_weights.json";
/// Names of what changes gradients in PyTorch, where the package has exported the program.
static constexpr char kOwnGradientsMember[] = "extra/own_gradients.txt";

namespace {

/// The open archive, and the tensors of the program on their way out of it.
class Archive {
public:
  Archive(Location file, Budget &budget) : file(file), budget(budget) {}

  LogicalResult open(const std::string &path);
  FailureOr<AtenGraph> read();
  /// Refuses a program whose gradients aren't all that PyTorch trains with.
  LogicalResult checkTrains() const;

private:
  InFlightDiagnostic refuse() const { return emitError(file); }
  bool has(const std::string &member) const { return zip->members().contains(root + member); }
  FailureOr<std::string> text(const std::string &member) const;
  LogicalResult checkFormat() const;
  FailureOr<Payloads> payloads(const std::string &folder, const std::string &kind) const;

  Location file;
  Budget &budget;
  std::optional<io::ZipFile> zip;
  std::string root, model; ///< the folder that holds everything; the program's name
};

} // namespace

LogicalResult Archive::open(const std::string &path) {
  std::string why;
  std::optional<io::MappedFile> mapped = io::MappedFile::open(path, why);
  if (!mapped)
    return refuse() << "cannot be read (" << why << ")";
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
    return refuse() << "is no program, but what torch.save writes: weights, or a pickled module; "
                       "save the model with torch.jit.save, or with torch.export.save of PyTorch "
                       "2.8 or later";
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
  // Buffers that aren't part of state_dict are stored with the constants.
  auto sourceOf = [&](const NamedTensor &named) {
    return weights->contains(named.name) ? StoredTensors::Source{*weights, weightsFolder}
                                         : StoredTensors::Source{*constants, constantsFolder};
  };
  StoredTensors stored(file, *zip, root);
  if (failed(stored.readAll(*program, sourceOf)))
    return failure();
  if (has(kTiesMember)) {
    auto text = this->text(kTiesMember);
    if (failed(text))
      return failure();
    auto ties = parseTies(*text, why);
    if (!ties)
      return LogicalResult(refuse() << root << kTiesMember << ": " << why);
    if (failed(stored.tieAs(*ties, program->graph)))
      return failure();
  }
  return std::move(program->graph);
}

LogicalResult Archive::checkTrains() const {
  if (!has(kOwnGradientsMember))
    return success();
  auto names = text(kOwnGradientsMember);
  if (failed(names))
    return failure();
  return refuse() << "can't be trained as in PyTorch: what changes gradients there isn't part of a "
                     "program: "
                  << *names;
}

FailureOr<AtenGraph> readExportedProgram(const std::string &path, bool training, Location file,
                                         Budget &budget) {
  Archive archive(file, budget);
  if (failed(archive.open(path)) || (training && failed(archive.checkTrains())))
    return failure();
  return archive.read();
}

} // namespace dtc::import
