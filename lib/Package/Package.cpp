#include "dtc/Package/Package.h"
#include "Manifest.h"

#include "dtc-rt/Program/PackageFormat.h"

namespace dtc::package {
namespace {

Bytes bytesOf(const std::string &text) { return std::as_bytes(std::span(text)); }

/// The zip members as they come, and what the manifest says of each.
class Members {
public:
  explicit Members(ZipWriter &zip) : zip(zip) {}
  llvm::Error add(const std::string &name, const Pieces &pieces) {
    index[name] = {{"size", sizeOf(pieces)}, {"sha256", sha256(pieces)}};
    return zip.add(name, pieces);
  }
  Json index = Json::object();

private:
  ZipWriter &zip;
};

llvm::Error addPrograms(const PackageInputs &inputs, Members &members, Json &manifest) {
  manifest["roles"] = Json::array();
  manifest["arena_bytes"] = Json::array();
  for (const Role &role : inputs.roles) {
    flatbuffers::FlatBufferBuilder builder;
    rt::fbs::FinishProgramBuffer(builder, rt::fbs::CreateProgram(builder, role.program));
    std::string name = "program/" + std::to_string(manifest["roles"].size()) + ".bin";
    Bytes bytes(reinterpret_cast<const std::byte *>(builder.GetBufferPointer()),
                builder.GetSize());
    if (llvm::Error error = members.add(name, {bytes}))
      return error;
    manifest["roles"].push_back({{"program", name}, {"ranks", role.ranks}});
    manifest["arena_bytes"].push_back(role.program->arena_bytes);
  }
  return llvm::Error::success();
}

llvm::Error addWeights(const PackageInputs &inputs, Members &members, Json &manifest) {
  llvm::Expected<WeightSection> weights = collectWeights(manifest["parameters"], inputs);
  if (!weights)
    return weights.takeError();
  manifest["weights"] = weights->index;
  if (!weights->embedded())
    return llvm::Error::success();
  Pieces pieces = {bytesOf(weights->header)};
  pieces.insert(pieces.end(), weights->data.begin(), weights->data.end());
  return members.add(rt::kWeightsMember, pieces);
}

/// The manifest's keys before any member is written.
llvm::Expected<Json> describe(const PackageInputs &inputs) {
  size_t ranks = 0;
  for (const Role &role : inputs.roles)
    ranks += role.ranks.size();
  Json manifest = {{"format", rt::kFormatVersion},
                   {"dtc", DTC_VERSION},
                   {"world_size", ranks},
                   {"threads_per_rank", inputs.roles.front().program->threads},
                   {"collectives", countCollectives(inputs.roles)},
                   {"library_calls", countLibraryCalls(inputs.roles)},
                   {"epilogues", countEpilogues(inputs.roles)}};
  if (!inputs.data.empty())
    manifest["data"] = pathFrom(inputs.path, inputs.data);
  llvm::Expected<Json> described = describeModules(inputs);
  if (!described)
    return described.takeError();
  Json about = inputs.about;
  for (Json *more : {&*described, &about}) {
    for (const auto &entry : more->items()) {
      if (manifest.contains(entry.key()))
        return llvm::createStringError("manifest key given twice: " + entry.key());
      manifest[entry.key()] = std::move(entry.value());
    }
  }
  return manifest;
}

llvm::Error addCode(const PackageInputs &inputs, Members &members, Json &manifest) {
  manifest["code"] = Json::array();
  if (!inputs.code)
    return llvm::Error::success();
  llvm::Expected<std::vector<CodeFile>> files = inputs.code();
  if (!files)
    return files.takeError();
  for (const CodeFile &file : *files) {
    std::string member = rt::kCodeFolder + file.name;
    manifest["code"].push_back(member);
    if (llvm::Error error = members.add(member, {file.bytes}))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error write(const PackageInputs &inputs) {
  llvm::Expected<Json> manifest = describe(inputs);
  if (!manifest)
    return manifest.takeError();
  auto zip = ZipWriter::create(inputs.path);
  if (!zip)
    return zip.takeError();
  Members members(**zip);
  if (llvm::Error error = addPrograms(inputs, members, *manifest))
    return error;
  if (llvm::Error error = addCode(inputs, members, *manifest))
    return error;
  if (llvm::Error error = addWeights(inputs, members, *manifest))
    return error;
  (*manifest)["members"] = members.index;
  std::string text = manifest->dump(1) + "\n";
  if (llvm::Error error = (*zip)->add(rt::kManifestMember, {bytesOf(text)}))
    return error;
  return (*zip)->commit(sha256({bytesOf(text)}));
}

} // namespace

mlir::LogicalResult writePackage(const PackageInputs &inputs) {
  if (llvm::Error error = write(inputs))
    return mlir::ModuleOp(inputs.roles.front().module).emitError()
           << llvm::toString(std::move(error));
  return mlir::success();
}

} // namespace dtc::package
