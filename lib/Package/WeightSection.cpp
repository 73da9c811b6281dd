#include "Manifest.h"

#include "dtc-io/InputFile.h"
#include "dtc-rt/Program/PackageFormat.h"

#include <algorithm>
#include <filesystem>

namespace dtc::package {
namespace {

struct Entry {
  std::string name;
  const Weight *weight;
};

/// Bytes per element of a safetensors type; 0 for an unknown one.
uint64_t elementSize(const std::string &dtype) {
  static const std::map<std::string, uint64_t> sizes = {
      {"F64", 8}, {"I64", 8}, {"U64", 8}, {"F32", 4}, {"I32", 4}, {"U32", 4},  {"F16", 2},
      {"BF16", 2}, {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},  {"BOOL", 1}};
  auto it = sizes.find(dtype);
  return it == sizes.end() ? 0 : it->second;
}

llvm::Error checkWeight(const Entry &entry, const Json &parameter) {
  uint64_t size = elementSize(entry.weight->dtype);
  for (int64_t dim : entry.weight->shape)
    size *= static_cast<uint64_t>(dim);
  if (size != entry.weight->size)
    return llvm::createStringError("size of weight " + entry.name +
                                   " doesn't fit its shape and type: " +
                                   std::to_string(entry.weight->size) + " bytes");
  if (Json(entry.weight->shape) != parameter["shape"])
    return llvm::createStringError("shape of weight " + entry.name + " isn't the model's " +
                                   parameter["shape"].dump() + ": " +
                                   Json(entry.weight->shape).dump());
  return llvm::Error::success();
}

Bytes bytesOf(const Weight &weight) { return {weight.data, weight.size}; }

/// Describes the embedded tensors in `section` as safetensors does: widest
/// types first, so that every tensor stays aligned; then by name.
void embed(std::vector<Entry> entries, WeightSection &section) {
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    uint64_t sizeA = elementSize(a.weight->dtype), sizeB = elementSize(b.weight->dtype);
    return sizeA != sizeB ? sizeA > sizeB : a.name < b.name;
  });
  Json header = Json::object();
  uint64_t offset = 0;
  for (const Entry &entry : entries) {
    const Weight &weight = *entry.weight;
    header[entry.name] = {{"dtype", weight.dtype},
                          {"shape", weight.shape},
                          {"data_offsets", {offset, offset + weight.size}}};
    section.data.push_back(bytesOf(weight));
    offset += weight.size;
  }
  std::string text = header.dump();
  text.append((rt::kMemberAlignment - (8 + text.size()) % rt::kMemberAlignment) %
                  rt::kMemberAlignment, ' ');
  for (uint64_t i = 0, length = text.size(); i < 8; ++i)
    section.header += static_cast<char>(length >> (8 * i));
  section.header += text;
  for (const Entry &entry : entries) {
    uint64_t begin = header[entry.name]["data_offsets"][0];
    section.index["tensors"][entry.name] = {{"file", nullptr},
                                            {"offset", section.header.size() + begin},
                                            {"size", entry.weight->size},
                                            {"dtype", entry.weight->dtype},
                                            {"shape", entry.weight->shape},
                                            {"sha256", sha256({bytesOf(*entry.weight)})}};
  }
}

/// The manifest's entry of a weight file.
llvm::Expected<Json> describeFile(const std::string &path, const std::string &artifact) {
  std::string why;
  std::optional<io::MappedFile> file = io::MappedFile::open(path, why);
  if (!file)
    return llvm::createStringError(path + ": cannot read the weights: " + why);
  std::span<const char> bytes = file->bytes();
  return Json{{"path", pathFrom(artifact, path)},
              {"size", bytes.size()},
              {"head_sha256",
               sha256({std::as_bytes(bytes.first(std::min(bytes.size(), rt::kHeadBytes)))})}};
}

llvm::Error refer(const std::vector<Entry> &entries, const std::string &artifact,
                  WeightSection &section) {
  std::map<std::string, size_t> files;
  for (const Entry &entry : entries) {
    auto [it, isNew] = files.try_emplace(entry.weight->file, files.size());
    if (isNew) {
      llvm::Expected<Json> file = describeFile(it->first, artifact);
      if (!file)
        return file.takeError();
      section.index["files"].push_back(*file);
    }
    section.index["tensors"][entry.name] = {{"file", it->second},
                                            {"offset", entry.weight->offset},
                                            {"size", entry.weight->size},
                                            {"dtype", entry.weight->dtype},
                                            {"shape", entry.weight->shape},
                                            {"sha256", nullptr}};
  }
  return llvm::Error::success();
}

} // namespace

std::string pathFrom(const std::string &artifact, const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code code;
  fs::path folder = fs::absolute(artifact, code).parent_path();
  fs::path relative = fs::relative(path, folder, code);
  return code || relative.empty() ? path : relative.string();
}

llvm::Expected<WeightSection> collectWeights(const Json &parameters, const PackageInputs &inputs) {
  static const WeightStore kNone;
  const WeightStore &store = inputs.weights ? *inputs.weights : kNone;
  std::vector<Entry> embedded, referenced;
  for (const Json &parameter : parameters) {
    std::string name = parameter["name"];
    auto it = store.find(name);
    if (it == store.end() || !it->second.data) {
      if (!parameter["init"].is_null())
        continue;
      return llvm::createStringError("no data for parameter (give --weights or --init): " + name);
    }
    Entry entry{name, &it->second};
    if (llvm::Error error = checkWeight(entry, parameter))
      return std::move(error);
    bool outside = !entry.weight->file.empty() && !inputs.embedWeights;
    (outside ? referenced : embedded).push_back(entry);
  }
  WeightSection section;
  section.index = {{"files", Json::array()}, {"tensors", Json::object()}};
  if (!embedded.empty())
    embed(std::move(embedded), section);
  if (llvm::Error error = refer(referenced, inputs.path, section))
    return std::move(error);
  return section;
}

} // namespace dtc::package
