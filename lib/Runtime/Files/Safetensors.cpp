#include "dtc-io/Json.h"
#include "dtc-io/JsonValue.h"
#include "dtc-rt/Files/ArrayFile.h"

#include <cstring>

namespace dtc::rt {
namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMostHeader = 100'000'000; ///< the format's own bound

uint64_t readLength(std::span<const char> bytes) {
  uint64_t length = 0;
  for (uint64_t i = kLengthBytes; i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  return length;
}

/// One entry of the header; `data` is everything behind the header.
Result<Array> parseEntry(const json &entry, std::span<const char> data) {
  Array array;
  uint64_t begin, end;
  try {
    std::string dtype = entry.at("dtype").get<std::string>();
    std::optional<DType> known = parseDType(dtype);
    if (!known)
      return refused("unknown element type: " + dtype);
    array.dtype = *known;
    array.shape = io::jsonValue<Dims>(entry.at("shape"));
    begin = io::jsonValue<uint64_t>(entry.at("data_offsets").at(0));
    end = io::jsonValue<uint64_t>(entry.at("data_offsets").at(1));
  } catch (const json::exception &) {
    return refused("malformed header entry");
  }
  CheckedSize size = CheckedSize::product(array.shape) * sizeOf(array.dtype);
  if (begin > end || end > data.size())
    return refused("reaches beyond the end of the file");
  if (!size || static_cast<uint64_t>(*size) != end - begin)
    return refused("bytes do not fit the shape " + shapeText(array.shape) + ": " +
                   std::to_string(end - begin));
  array.data = data.data() + begin;
  return array;
}

} // namespace

Result<ArrayFile> openSafetensors(MappedFile file) {
  std::span<const char> bytes = file.bytes();
  if (bytes.size() < kLengthBytes)
    return refused(file.path() + ": truncated");
  uint64_t length = readLength(bytes);
  if (length > kMostHeader || length > bytes.size() - kLengthBytes)
    return refused(file.path() + ": truncated, or not a safetensors file");
  std::string why;
  std::optional<json> header =
      io::parseJson<json>({bytes.data() + kLengthBytes, static_cast<size_t>(length)}, why);
  if (!header || !header->is_object())
    return refused(file.path() + ": its header " + (why.empty() ? "is not a JSON object" : why));
  ArrayFile result;
  result.path = file.path();
  result.bytes = bytes;
  for (auto &[name, entry] : header->items()) {
    if (name == "__metadata__")
      continue;
    Result<Array> array = parseEntry(entry, bytes.subspan(kLengthBytes + length));
    if (!array)
      return std::move(array.status()).in(file.path() + ": " + name);
    result.arrays[name] = *array;
  }
  result.owner = std::make_shared<MappedFile>(std::move(file));
  return result;
}

Result<SafetensorsHeader> SafetensorsHeader::of(std::span<const SafetensorsEntry> entries) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  SafetensorsHeader result;
  uint64_t end = 0;
  for (const SafetensorsEntry &entry : entries) {
    uint64_t size = static_cast<uint64_t>(product(entry.shape) * sizeOf(entry.dtype));
    header[entry.name] = {{"dtype", nameOf(entry.dtype)},
                          {"shape", entry.shape},
                          {"data_offsets", {end, end + size}}};
    result.offsets.push_back(end);
    end += size;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception &) {
    return failed("a name is not UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  for (uint64_t i = 0, length = text.size(); i < kLengthBytes; ++i)
    result.bytes += static_cast<char>(length >> (8 * i));
  result.bytes += text;
  for (uint64_t &offset : result.offsets)
    offset += result.bytes.size();
  result.fileSize = result.bytes.size() + end;
  return result;
}

/// Whose files hold tensors in another format. Other endings say nothing.
static Status checkEnding(const std::string &path) {
  static constexpr std::string_view kOthers[] = {".pt",  ".pth", ".pt2", ".ckpt", ".bin", ".onnx",
                                                 ".npz", ".npy", ".h5",  ".gguf", ".pkl"};
  for (std::string_view ending : kOthers)
    if (path.ends_with(ending))
      return {ErrorCategory::Usage, path +
                                        ": tensors are written in the format safetensors; end "
                                        "the name with .safetensors, not with " +
                                        std::string(ending)};
  return Status::ok();
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string &path,
                                                    std::vector<Entry> entries, Writers writers) {
  if (Status status = checkEnding(path); !status.isOk())
    return status;
  Result<SafetensorsHeader> header = SafetensorsHeader::of(entries);
  if (!header)
    return std::move(header.status()).in(path);
  Result<OutputFile> file = OutputFile::create(path, header->fileSize, writers);
  if (!file)
    return file.status();
  std::memcpy(file->data(), header->bytes.data(), header->bytes.size());
  return SafetensorsWriter(std::move(*file), std::move(header->offsets));
}

} // namespace dtc::rt
