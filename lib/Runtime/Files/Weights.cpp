#include "dtc-rt/Files/Weights.h"

#include "AdapterFiles.h"

#include "dtc-io/OutputPath.h"
#include "dtc-rt/Files/Philox.h"
#include "dtc-rt/Program/LossScaling.h"
#include "dtc-rt/Program/PackageFormat.h"
#include "dtc-rt/Program/PartRuns.h"
#include "dtc-rt/Program/Sha256.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace dtc::rt {

std::string pathOf(const Package &package, const std::string &named) {
  const std::string artifact = io::endOfLinks(package.path());
  size_t slash = artifact.rfind('/');
  if (named.starts_with('/') || slash == std::string::npos)
    return named;
  return artifact.substr(0, slash + 1) + named;
}

namespace {

/// The file that the manifest describes, as it was at compile time.
Result<MappedFile> openWeightFile(const Package &package, const WeightFile &info) {
  std::string path = pathOf(package, info.path);
  Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.status();
  std::span<const char> bytes = file->bytes();
  if (bytes.size() != info.size)
    return refused(path + ": is not the file of compile time, its size was " +
                   std::to_string(info.size) + ": " + std::to_string(bytes.size()));
  if (sha256(bytes.first(std::min<size_t>(bytes.size(), kHeadBytes))) != info.headSha256)
    return refused(path + ": is not the file of compile time, its beginning differs");
  return file;
}

/// Elements of the parameter's file type or drawn: a stretch of the whole tensor.
struct Stretch {
  DType dtype;
  const char *data; ///< of the whole tensor; null: draw
  const Distribution *distribution;
  uint64_t seed;
  uint32_t item;

  void copy(int64_t begin, int64_t count, DType to, char *target) const {
    if (data) {
      convert(to, target, dtype, data + begin * sizeOf(dtype), count);
      return;
    }
    // Each number is a function of its place, so threads draw what one would.
    const int64_t threads = std::clamp<int64_t>(count / kLeastOfThread, 1, mostThreads());
    const int64_t share = (count + threads - 1) / threads;
    std::vector<std::thread> workers;
    for (int64_t first = share; first < count; first += share)
      workers.emplace_back([=, this] {
        draw(begin + first, std::min(share, count - first), to, target + first * sizeOf(to));
      });
    draw(begin, std::min(share, count), to, target);
    for (std::thread &worker : workers)
      worker.join();
  }

private:
  /// Numbers of a thread: fewer are drawn sooner than one is made.
  static constexpr int64_t kLeastOfThread = int64_t(1) << 13;
  static int64_t mostThreads() { return std::max(1U, std::thread::hardware_concurrency()); }

  void draw(int64_t begin, int64_t count, DType to, char *target) const {
    constexpr int64_t kPiece = 1024;
    float piece[kPiece];
    for (int64_t done = 0; done < count; done += kPiece) {
      int64_t size = std::min(kPiece, count - done);
      drawNormal(seed, RandomStream::Weights, item, static_cast<uint64_t>(begin + done), size,
                 piece);
      for (int64_t i = 0; i < size; ++i)
        piece[i] = static_cast<float>(distribution->mean + distribution->deviation * piece[i]);
      convert(to, target + done * sizeOf(to), DType::F32, reinterpret_cast<char *>(piece), size);
    }
  }
};

} // namespace

Result<WeightReader> WeightReader::open(const Package &package, uint64_t seed) {
  const Manifest &manifest = package.manifest();
  WeightReader reader(manifest, seed);
  std::span<const char> embedded;
  if (package.has(kWeightsMember)) {
    Result<std::span<const char>> bytes = package.read(kWeightsMember);
    if (!bytes)
      return bytes.status();
    embedded = *bytes;
  }
  for (const WeightFile &info : manifest.weights.files) {
    Result<MappedFile> file = openWeightFile(package, info);
    if (!file)
      return file.status();
    reader.files.push_back(*file);
  }
  for (const ParameterInfo &parameter : manifest.parameters) {
    auto found = manifest.weights.tensors.find(parameter.name);
    if (found == manifest.weights.tensors.end()) {
      if (!parameter.init || !isFloat(parameter.storage))
        return package.wrong("has no data for the weight: " + parameter.name);
      reader.data.push_back(nullptr);
      continue;
    }
    const WeightLocation &place = found->second;
    std::span<const char> bytes = place.file ? reader.files[*place.file].bytes() : embedded;
    if (place.offset > bytes.size() || place.size > bytes.size() - place.offset)
      return package.wrong(parameter.name + ": the weight reaches beyond the end of its file");
    reader.data.push_back(bytes.data() + place.offset);
  }
  return reader;
}

void WeightReader::read(size_t parameter, const Part &part, DType dtype, char *target) const {
  const ParameterInfo &info = manifest->parameters[parameter];
  auto found = manifest->weights.tensors.find(info.name);
  DType from = found == manifest->weights.tensors.end() ? info.dtype : found->second.dtype;
  Stretch stretch{from, data[parameter], info.init ? &*info.init : nullptr, seed,
                  static_cast<uint32_t>(parameter)};
  char *own = target + part.at * sizeOf(dtype);
  if (info.isLonger())
    std::memset(own, 0, static_cast<size_t>((part.end - part.begin) * sizeOf(dtype)));
  PartRuns runs(info.filled, info.view, part);
  for (int64_t i = 0; i < runs.size(); ++i) {
    const PartRuns::Run run = runs[i];
    stretch.copy(run.at, run.count, dtype, own + run.local * sizeOf(dtype));
  }
}

bool WeightWriter::isSaved(const ParameterInfo &info) const {
  if (saved == SavedWeights::All || isLossScaling(info.name))
    return !isLossScaling(info.name);
  return info.adapter.has_value() == (saved != SavedWeights::Merged);
}

Status WeightWriter::prepareAdapters(const std::string &asked) {
  path = asked;
  if (saved == SavedWeights::All)
    return Status::ok();
  Result<std::vector<AdapterPair>> found = adapterPairs(*manifest);
  if (!found)
    return found.status();
  pairs = std::move(*found);
  if (saved == SavedWeights::Peft)
    return PeftFolder(path).create();
  if (saved == SavedWeights::Adapters)
    return Status::ok();
  for (const AdapterPair &pair : pairs)
    for (size_t factor : {pair.a, pair.b}) {
      const ParameterInfo &info = manifest->parameters[factor];
      merged[factor].resize(static_cast<size_t>(product(info.shape) * sizeOf(info.dtype)));
    }
  return Status::ok();
}

Result<WeightWriter> WeightWriter::create(const std::string &path, const Manifest &manifest,
                                          SavedWeights saved, Writers writers) {
  WeightWriter writer(manifest);
  writer.saved = saved;
  if (Status status = writer.prepareAdapters(path); !status.isOk())
    return status;
  const std::string prefix = saved == SavedWeights::Peft ? PeftFolder::kPrefix : "";
  std::vector<SafetensorsWriter::Entry> entries;
  std::vector<size_t> first;
  for (const ParameterInfo &info : manifest.parameters) {
    first.push_back(entries.size());
    if (!writer.isSaved(info))
      continue;
    entries.push_back({prefix + info.name, info.dtype, info.shape});
    for (const std::string &alias : info.aliases)
      entries.push_back({alias, info.dtype, info.shape});
  }
  const size_t count = entries.size();
  Result<SafetensorsWriter> file = SafetensorsWriter::create(
      saved == SavedWeights::Peft ? PeftFolder(path).weights() : path, std::move(entries), writers);
  if (!file)
    return file.status();
  writer.file.emplace(std::move(*file));
  for (size_t i = 0; i < first.size(); ++i) {
    const size_t next = i + 1 < first.size() ? first[i + 1] : count;
    writer.places.push_back(next > first[i] ? writer.file->data(first[i]) : nullptr);
  }
  for (auto &[factor, bytes] : writer.merged)
    writer.places[factor] = bytes.data();
  writer.entries = std::move(first);
  return writer;
}

WeightWriter WeightWriter::into(std::vector<char *> places, const Manifest &manifest) {
  WeightWriter writer(manifest);
  writer.places = std::move(places);
  return writer;
}

void WeightWriter::put(size_t parameter, const Part &part, DType dtype, const char *source) {
  const ParameterInfo &info = manifest->parameters[parameter];
  char *target = places[parameter];
  if (!target)
    return;
  const char *own = source + part.at * sizeOf(dtype);
  PartRuns runs(info.filled, info.view, part);
  for (int64_t i = 0; i < runs.size(); ++i) {
    const PartRuns::Run run = runs[i];
    convert(info.dtype, target + run.at * sizeOf(info.dtype), dtype,
            own + run.local * sizeOf(dtype), run.count);
  }
}

/// Ranks may hold a frozen weight rounded: what an adapter is added to is the file's.
Status WeightWriter::finish(const WeightReader &reader, const std::vector<bool> &wasPut) {
  auto fill = [&](size_t i) {
    const ParameterInfo &info = manifest->parameters[i];
    reader.read(i, Part::whole(info.filled), info.dtype, places[i]);
  };
  for (size_t i = 0; i < places.size(); ++i)
    if (places[i] && !wasPut[i])
      fill(i);
  if (saved == SavedWeights::Merged)
    for (const AdapterPair &pair : pairs) {
      fill(pair.base);
      mergeAdapter(*manifest, pair, places[pair.base], places[pair.a], places[pair.b]);
    }
  for (size_t i = 0; i < places.size(); ++i) {
    const ParameterInfo &info = manifest->parameters[i];
    for (size_t alias = 1; file && places[i] && alias <= info.aliases.size(); ++alias)
      std::memcpy(file->data(entries[i] + alias), places[i],
                  static_cast<size_t>(product(info.shape) * sizeOf(info.dtype)));
  }
  return commit();
}

Status WeightWriter::commit() {
  if (!file)
    return Status::ok();
  Status status = file->commit();
  return status.isOk() && saved == SavedWeights::Peft
             ? PeftFolder(path).writeConfig(*manifest, pairs)
             : status;
}

} // namespace dtc::rt
