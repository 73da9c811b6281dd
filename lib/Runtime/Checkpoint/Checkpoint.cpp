#include "dtc-rt/Checkpoint/Checkpoint.h"

#include "dtc-io/Json.h"
#include "dtc-io/JsonValue.h"
#include "dtc-rt/Program/PartRuns.h"
#include "dtc-rt/Program/Sha256.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace dtc::rt {
namespace {

using nlohmann::ordered_json;

constexpr int kCheckpointFormat = 1;
constexpr std::string_view kBefore = "{\"sha256\": \"",
                           kBetween = "\",\n\"content\": ", kAfter = "}\n";
constexpr size_t kHashLength = 64;
constexpr int64_t kMostCounted = int64_t(1) << 60;

ordered_json jsonOf(const StoredPart &stored) {
  const Part &part = stored.part;
  return {{"file", stored.file},       {"at", stored.at},     {"offset", part.shard.offset},
          {"shape", part.shard.shape}, {"begin", part.begin}, {"end", part.end}};
}

ordered_json jsonOf(const StoredTensor &tensor) {
  ordered_json parts = ordered_json::array();
  for (const StoredPart &part : tensor.parts)
    parts.push_back(jsonOf(part));
  ordered_json json = {{"name", tensor.name},
                       {"state", tensor.state},
                       {"dtype", nameOf(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"view", tensor.view}};
  if (tensor.filled != filledOf(tensor.shape, tensor.view))
    json["filled"] = tensor.filled;
  json["parts"] = std::move(parts);
  return json;
}

template <typename T> T valueOf(const ordered_json &json, const char *key) {
  return io::jsonValue<T>(json.at(key));
}

StoredFile fileOf(const ordered_json &json) {
  return {valueOf<std::string>(json, "name"), valueOf<uint64_t>(json, "size"),
          valueOf<std::string>(json, "sha256")};
}

TrainingPoint pointOf(const ordered_json &json) {
  return {valueOf<int64_t>(json, "step"), valueOf<int64_t>(json, "position"),
          valueOf<int64_t>(json, "samples"), valueOf<bool>(json, "shuffle"),
          valueOf<uint64_t>(json, "seed")};
}

/// Whether the part lies inside of the tensor and of its file.
bool fits(const StoredPart &stored, const StoredTensor &tensor, const CheckpointInfo &info) {
  const Shard &box = stored.part.shard;
  CheckedSize elements = CheckedSize::product(box.shape);
  if (stored.file >= info.files.size() || !elements || box.shape.size() != tensor.view.size() ||
      box.offset.size() != tensor.view.size())
    return false;
  for (size_t dim = 0; dim < tensor.view.size(); ++dim)
    if (box.offset[dim] < 0 ||
        !(CheckedSize(box.offset[dim]) + box.shape[dim]).isAtMost(tensor.view[dim]))
      return false;
  if (stored.part.begin < 0 || stored.part.end < stored.part.begin || stored.part.end > *elements)
    return false;
  uint64_t size = info.files[stored.file].size;
  CheckedSize bytes = CheckedSize(stored.part.end - stored.part.begin) * sizeOf(tensor.dtype);
  return bytes && stored.at <= size && static_cast<uint64_t>(*bytes) <= size - stored.at;
}

/// By the box, then by what of it is stored.
bool isBefore(const StoredPart &one, const StoredPart &other) {
  const Shard &a = one.part.shard, &b = other.part.shard;
  for (size_t dim = 0; dim < a.shape.size(); ++dim)
    if (auto order =
            std::tie(a.offset[dim], a.shape[dim]) <=> std::tie(b.offset[dim], b.shape[dim]);
        order != 0)
      return order < 0;
  return one.part.begin < other.part.begin;
}

/// Whether a part holds elements of the one before it. Boxes are of one grid, as shardings make
/// them, so that neighbours tell of all.
bool haveCommonElements(const StoredPart &one, const StoredPart &next) {
  const Shard &a = one.part.shard, &b = next.part.shard;
  for (size_t dim = 0; dim < a.shape.size(); ++dim)
    if (a.offset[dim] != b.offset[dim] || a.shape[dim] != b.shape[dim])
      return a.offset[dim] + a.shape[dim] > b.offset[dim];
  return one.part.end > next.part.begin;
}

/// Whether an element is stored twice. As many others would have no value then.
bool overlap(std::vector<StoredPart> parts) {
  std::erase_if(parts,
                [](const StoredPart &stored) { return stored.part.begin == stored.part.end; });
  std::ranges::sort(parts, isBefore);
  return std::ranges::adjacent_find(parts, haveCommonElements) != parts.end();
}

/// Whether two parts are the same bytes of a file.
bool shareBytes(const std::vector<StoredTensor> &tensors) {
  std::vector<std::tuple<size_t, uint64_t, uint64_t>> ranges; // file, first byte, the one behind
  for (const StoredTensor &tensor : tensors)
    for (const StoredPart &stored : tensor.parts)
      if (int64_t bytes = (stored.part.end - stored.part.begin) * sizeOf(tensor.dtype); bytes > 0)
        ranges.emplace_back(stored.file, stored.at, stored.at + static_cast<uint64_t>(bytes));
  std::ranges::sort(ranges);
  return std::ranges::adjacent_find(ranges, [](const auto &one, const auto &next) {
           return std::get<0>(one) == std::get<0>(next) && std::get<2>(one) > std::get<1>(next);
         }) != ranges.end();
}

StoredPart partOf(const ordered_json &json) {
  StoredPart stored;
  stored.file = valueOf<size_t>(json, "file");
  stored.at = valueOf<uint64_t>(json, "at");
  stored.part.shard.offset = valueOf<Dims>(json, "offset");
  stored.part.shard.shape = valueOf<Dims>(json, "shape");
  stored.part.begin = valueOf<int64_t>(json, "begin");
  stored.part.end = valueOf<int64_t>(json, "end");
  stored.part.stored = stored.part.end;
  return stored;
}

Result<StoredTensor> tensorOf(const ordered_json &json, const CheckpointInfo &info) {
  StoredTensor tensor;
  tensor.name = valueOf<std::string>(json, "name");
  tensor.state = valueOf<std::string>(json, "state");
  std::optional<DType> dtype = parseDType(valueOf<std::string>(json, "dtype"));
  tensor.shape = valueOf<Dims>(json, "shape");
  tensor.view = valueOf<Dims>(json, "view");
  CheckedSize elements = CheckedSize::product(tensor.shape),
              seen = CheckedSize::product(tensor.view);
  if (elements && seen)
    tensor.filled = json.contains("filled") ? valueOf<Dims>(json, "filled")
                                            : filledOf(tensor.shape, tensor.view);
  if (!dtype || !elements || !seen || !CheckedSize::product(tensor.filled) ||
      !mayFill(tensor.shape, tensor.filled, tensor.view))
    return refused(tensor.text() + ": has an impossible type or shape");
  tensor.dtype = *dtype;
  CheckedSize stored = 0;
  for (const ordered_json &entry : json.at("parts")) {
    StoredPart part = partOf(entry);
    if (!fits(part, tensor, info))
      return refused(tensor.text() + ": has a part that reaches beyond its tensor or file");
    stored = stored + (part.part.end - part.part.begin);
    tensor.parts.push_back(std::move(part));
  }
  if (!stored || *stored != *seen)
    return refused(tensor.text() + ": has parts of other than all elements");
  if (overlap(tensor.parts))
    return refused(tensor.text() + ": has parts that overlap");
  return tensor;
}

Result<CheckpointInfo> contentOf(const ordered_json &json) {
  if (json.at("format") != kCheckpointFormat)
    return refused("has a format that this dtc-run doesn't know: " + json.at("format").dump());
  CheckpointInfo info;
  info.point = pointOf(json);
  for (int64_t count : {info.point.step, info.point.position, info.point.samples})
    if (count < 0 || count > kMostCounted)
      return refused("has an impossible step or number of samples: " + std::to_string(count));
  if (json.contains("traits"))
    for (const auto &[name, value] : json["traits"].items())
      info.traits.emplace(name, io::jsonValue<std::string>(value));
  std::set<std::string> names;
  for (const ordered_json &entry : json.at("files")) {
    StoredFile file = fileOf(entry);
    if (!names.insert(file.name).second)
      return refused("has a file twice: " + file.name);
    if (file.name.find_first_of(std::string_view("/\0", 2)) != std::string::npos)
      return refused("has a file outside of its folder: " + file.name);
    info.files.push_back(std::move(file));
  }
  for (const ordered_json &entry : json.at("tensors")) {
    Result<StoredTensor> tensor = tensorOf(entry, info);
    if (!tensor)
      return tensor.status();
    info.tensors.push_back(std::move(*tensor));
  }
  if (shareBytes(info.tensors))
    return refused("has two parts in the same bytes of a file");
  return info;
}

} // namespace

size_t CheckpointInfo::find(const std::string &name, const std::string &state) const {
  auto isBefore = [](const StoredTensor &tensor, const auto &key) {
    return std::tie(tensor.name, tensor.state) < key;
  };
  auto found = std::lower_bound(tensors.begin(), tensors.end(), std::tie(name, state), isBefore);
  return static_cast<size_t>(found - tensors.begin());
}

std::string checkpointText(const CheckpointInfo &info) {
  ordered_json files = ordered_json::array(), tensors = ordered_json::array();
  for (const StoredFile &file : info.files)
    files.push_back({{"name", file.name}, {"size", file.size}, {"sha256", file.sha256}});
  for (const StoredTensor &tensor : info.tensors)
    tensors.push_back(jsonOf(tensor));
  const TrainingPoint &point = info.point;
  ordered_json content = {
      {"format", kCheckpointFormat}, {"step", point.step},        {"position", point.position},
      {"samples", point.samples},    {"shuffle", point.shuffle},  {"seed", point.seed},
      {"traits", info.traits},       {"files", std::move(files)}, {"tensors", std::move(tensors)}};
  std::string text = content.dump();
  std::string result(kBefore);
  result += sha256(text);
  result += kBetween;
  result += text;
  result += kAfter;
  return result;
}

Result<CheckpointInfo> parseCheckpoint(std::string_view text) {
  size_t start = kBefore.size() + kHashLength + kBetween.size();
  if (text.size() < start + kAfter.size() || !text.starts_with(kBefore) ||
      text.substr(kBefore.size() + kHashLength, kBetween.size()) != kBetween ||
      !text.ends_with(kAfter))
    return refused("damaged, or not a checkpoint's");
  std::string_view content = text.substr(start, text.size() - start - kAfter.size());
  if (sha256(content) != text.substr(kBefore.size(), kHashLength))
    return refused("damaged, its SHA-256 is not as recorded");
  std::string why;
  std::optional<ordered_json> json = io::parseJson<ordered_json>(content, why);
  if (!json)
    return refused(std::move(why));
  try {
    return contentOf(*json);
  } catch (const nlohmann::json::exception &) {
    return refused("lacks a key, or has one of another type than it should");
  }
}

} // namespace dtc::rt
