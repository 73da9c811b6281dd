// What dtc-run reads, in process: its flags, artifacts and their parts, checkpoints, weights and
// data.
#include "FuzzInput.h"

#include "dtc-rt/Checkpoint/Checkpoint.h"
#include "dtc-rt/CommandLine.h"
#include "dtc-rt/Files/DataSet.h"
#include "dtc-rt/Files/Weights.h"
#include "dtc-rt/Program/Package.h"
#include "dtc-rt/Program/ProgramView.h"
#include "dtc-rt/Program/Sha256.h"

#include <optional>

using namespace dtc;

namespace {

std::string kind;
std::optional<rt::Package> unharmed; ///< the artifact whose parts are replaced

/// Opens all that dtc-run opens before it runs code.
void openArtifact(const std::string &path) {
  rt::Result<rt::Package> package = rt::Package::open(path);
  if (!package)
    return;
  const rt::Manifest &manifest = package->manifest();
  for (size_t role = 0; role < manifest.roles.size(); ++role)
    if (auto bytes = package->read(manifest.roles[role].program))
      if (auto program = rt::ProgramView::open(*bytes, manifest, role))
        (void)program->bindings({rt::fbs::BindingKind::Parameter});
  if (auto weights = rt::WeightReader::open(*package, 0))
    (void)weights->find(0);
}

/// Reads the first and the last sample of every input.
void readData(const std::string &path) {
  const rt::Manifest &manifest = unharmed->manifest();
  rt::Result<rt::DataSet> data = rt::DataSet::open(path, manifest);
  if (!data)
    return;
  const int64_t samples[] = {0, data->numSamples() - 1};
  for (size_t input = 0; input < manifest.inputs.size(); ++input) {
    const rt::Dims &shape = manifest.inputs[input].shape;
    rt::Shard shard{.offset = rt::Dims(shape.size(), 0), .shape = shape};
    shard.shape[0] = 2;
    const rt::DType dtype = manifest.inputs[input].dtype;
    std::vector<char> target(static_cast<size_t>(rt::product(shard.shape) * rt::sizeOf(dtype)));
    (void)data->read(input, samples, shard, dtype, target.data()).isOk();
  }
}

/// A checkpoint's manifest with this content, of which its hash is.
void readCheckpoint(std::string_view content) {
  const std::string text =
      R"({"sha256": ")" + rt::sha256(content) + "\",\n\"content\": " + std::string(content) + "}\n";
  (void)rt::parseCheckpoint(text);
}

void readProgram(const uint8_t *data, size_t size) {
  // Programs lie at multiples of 64 bytes in an artifact.
  std::unique_ptr<char, decltype(&std::free)> aligned(
      static_cast<char *>(std::aligned_alloc(64, (size + 64) / 64 * 64)), &std::free);
  std::memcpy(aligned.get(), data, size);
  if (auto program = rt::ProgramView::open({aligned.get(), size}, unharmed->manifest(), 0))
    (void)program->bindings({rt::fbs::BindingKind::Parameter});
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv) {
  kind = fuzz::flag(*argc, *argv, "kind");
  rt::Result<rt::Package> package = rt::Package::open(fuzz::flag(*argc, *argv, "artifact"));
  if (!package) {
    std::fprintf(stderr, "%s\n", package.status().message().c_str());
    std::exit(2);
  }
  unharmed.emplace(std::move(*package));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (kind == "manifest") {
    (void)rt::Manifest::parse({reinterpret_cast<const char *>(data), size});
    return 0;
  }
  if (kind == "checkpoint") {
    readCheckpoint({reinterpret_cast<const char *>(data), size});
    return 0;
  }
  if (kind == "run_flags") {
    rt::RunOptions options;
    (void)rt::readArguments(fuzz::wordsOf(data, size), options).isOk();
    return 0;
  }
  if (kind == "program") {
    readProgram(data, size);
    return 0;
  }
  fuzz::InputPath input(data, size);
  if (kind == "artifact")
    openArtifact(input.path());
  else if (kind == "arrays")
    (void)rt::ArrayFile::open(input.path());
  else
    readData(input.path());
  return 0;
}
