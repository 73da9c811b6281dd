#include "dtc-rt/Checkpoint/Reader.h"

#include "dtc-io/InputFile.h"
#include "dtc-io/ModelTraits.h"
#include "dtc-rt/Program/PartRuns.h"
#include "dtc-rt/Program/Sha256.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <unistd.h>

namespace dtc::rt {
namespace {

constexpr uint64_t kMostBuffered = uint64_t(1) << 20;
constexpr uint64_t kMostManifest = uint64_t(1) << 30;

/// Reads a file through a buffer. Its pages are never mapped, so that a resumed run needs no more
/// memory than another. A file that is cut meanwhile is an error like any other.
class WindowedFile {
public:
  static Result<WindowedFile> open(const std::string &path, uint64_t window) {
    std::string why;
    std::optional<io::InputFile> file = io::InputFile::open(path, why);
    if (!file)
      return refused(path + ": " + why);
    return WindowedFile(path, std::move(*file), std::clamp<uint64_t>(window, 1, kMostBuffered));
  }

  uint64_t size() const { return file.size(); }
  /// Up to `bytes` bytes, at least one, from `at` on.
  Result<std::span<const char>> read(uint64_t at, uint64_t bytes) {
    if (at < start || at >= start + length) {
      ssize_t count =
          ::pread(file.descriptor(), buffer.data(), buffer.size(), static_cast<off_t>(at));
      if (count <= 0)
        return refused(path + ": " + (count < 0 ? std::strerror(errno) : "truncated"));
      start = at;
      length = static_cast<uint64_t>(count);
    }
    uint64_t skipped = at - start;
    return std::span<const char>(buffer).subspan(skipped, std::min(bytes, length - skipped));
  }
  /// All of as many bytes.
  Status readAll(uint64_t at, std::span<char> target) {
    while (!target.empty()) {
      Result<std::span<const char>> piece = read(at, target.size());
      if (!piece)
        return piece.status();
      std::memcpy(target.data(), piece->data(), piece->size());
      at += piece->size();
      target = target.subspan(piece->size());
    }
    return Status::ok();
  }

private:
  WindowedFile(std::string path, io::InputFile file, uint64_t window)
      : path(std::move(path)), file(std::move(file)), buffer(window) {}
  std::string path;
  io::InputFile file;
  std::vector<char> buffer;
  uint64_t start = 0, length = 0;
};

/// Elements of a file, converted piece by piece.
Status copyElements(WindowedFile &file, uint64_t at, DType from, int64_t count, DType to,
                    char *target) {
  constexpr int64_t kPiece = 4096;
  char piece[kPiece * sizeof(uint64_t)];
  for (int64_t done = 0; done < count; done += kPiece) {
    int64_t size = std::min(kPiece, count - done);
    uint64_t bytes = static_cast<uint64_t>(size * sizeOf(from));
    Status status = file.readAll(at + static_cast<uint64_t>(done * sizeOf(from)),
                                 std::span(piece, static_cast<size_t>(bytes)));
    if (!status.isOk())
      return status;
    convert(to, target + done * sizeOf(to), from, piece, size);
  }
  return Status::ok();
}

/// What of two sorted lists comes first and isn't in the other.
std::string differenceOf(const StoredTensor *stored, const StoredTensor *expected) {
  bool isExtra = stored && (!expected || std::tie(stored->name, stored->state) <
                                             std::tie(expected->name, expected->state));
  return isExtra ? "has what the artifact doesn't train: " + stored->text()
                 : "lacks what the artifact trains: " + expected->text();
}

} // namespace

Result<CheckpointReader> CheckpointReader::open(const std::string &path) {
  CheckpointReader reader;
  reader.folder = path;
  std::string name = path + "/" + kCheckpointManifest, why;
  std::optional<std::string> text = io::readFile(name, kMostManifest, why);
  if (!text)
    return refused(name + ": " + why);
  Result<CheckpointInfo> info = parseCheckpoint(*text);
  if (!info)
    return std::move(info.status()).in(name);
  reader.info = std::move(*info);
  for (const StoredFile &file : reader.info.files)
    if (Status status = reader.verify(file); !status.isOk())
      return status;
  return reader;
}

Status CheckpointReader::verify(const StoredFile &stored) const {
  std::string path = folder + "/" + stored.name;
  Result<WindowedFile> file = WindowedFile::open(path, stored.size);
  if (!file)
    return file.status();
  if (file->size() != stored.size)
    return refused(path + ": damaged, its size was " + std::to_string(stored.size) + ": " +
                   std::to_string(file->size()));
  Sha256 digest;
  for (uint64_t at = 0; at < stored.size;) {
    Result<std::span<const char>> piece = file->read(at, kMostBuffered);
    if (!piece)
      return piece.status();
    digest.add(*piece);
    at += piece->size();
  }
  if (digest.finish() != stored.sha256)
    return refused(path + ": damaged, its SHA-256 is not as recorded");
  return Status::ok();
}

Status CheckpointReader::checkModel(const CheckpointInfo &expected) const {
  std::string start = folder + ": is a checkpoint of another model or optimizer, it ";
  for (size_t i = 0; i < std::max(info.tensors.size(), expected.tensors.size()); ++i) {
    const StoredTensor *stored = i < info.tensors.size() ? &info.tensors[i] : nullptr;
    const StoredTensor *own = i < expected.tensors.size() ? &expected.tensors[i] : nullptr;
    if (!stored || !own || stored->name != own->name || stored->state != own->state)
      return refused(start + differenceOf(stored, own));
    if (stored->shape != own->shape)
      return refused(start + "has another shape of " + own->text() + " than " +
                     shapeText(own->shape) + ": " + shapeText(stored->shape));
    if (!isLossless(stored->dtype, own->dtype))
      return refused(folder + ": has more precision than this artifact keeps, " +
                     nameOf(own->dtype) + ", of " + own->text() + ": " + nameOf(stored->dtype));
  }
  bool hasOtherResults = false;
  for (const auto &[name, own] : expected.traits) {
    auto stored = info.traits.find(name);
    if (stored == info.traits.end() || io::areTraitsAlike(name, own, stored->second))
      continue;
    if (name != io::kResultsTrait)
      return refused(start + "has other " + name + " than " + own + ": " + stored->second);
    hasOtherResults = true;
  }
  return hasOtherResults ? refused(start + "has other results of the same weights") : Status::ok();
}

Status CheckpointReader::read(size_t tensor, const StoredTensor &expected, const Part &part,
                              DType dtype, char *target) const {
  const StoredTensor &from = info.tensors[tensor];
  PartRuns wanted(expected.filled, expected.view, part);
  if (expected.view != expected.filled)
    std::memset(target, 0, static_cast<size_t>((part.end - part.begin) * sizeOf(dtype)));
  for (const StoredPart &stored : from.parts) {
    std::optional<WindowedFile> file;
    Status status = Status::ok();
    forEachCommonRun(
        wanted, PartRuns(from.filled, from.view, stored.part),
        [&](int64_t to, int64_t at, int64_t count) {
          if (!file && status.isOk()) {
            int64_t bytes = (stored.part.end - stored.part.begin) * sizeOf(from.dtype);
            auto opened = WindowedFile::open(folder + "/" + info.files[stored.file].name,
                                             static_cast<uint64_t>(bytes));
            if (opened)
              file.emplace(std::move(*opened));
            else
              status = opened.status();
          }
          if (status.isOk())
            status = copyElements(*file, stored.at + static_cast<uint64_t>(at * sizeOf(from.dtype)),
                                  from.dtype, count, dtype, target + to * sizeOf(dtype));
        });
    if (!status.isOk())
      return status;
  }
  return Status::ok();
}

} // namespace dtc::rt
