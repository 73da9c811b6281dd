#include "CubinCache.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/Caching.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"

#include <array>
#include <cstdlib>

using namespace llvm;

namespace dtc::cuda {
namespace {

constexpr uint64_t kMostBytes = uint64_t(512) << 20;
constexpr size_t kDigestBytes = 32;

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// Empty where nothing is kept.
std::string folderOfCache() {
  if (std::string asked = variable("DTC_CUBIN_CACHE"); !asked.empty())
    return asked == "off" ? "" : asked;
  SmallString<128> folder(variable("XDG_CACHE_HOME"));
  if (folder.empty() && !variable("HOME").empty()) {
    folder = variable("HOME");
    sys::path::append(folder, ".cache");
  }
  if (!sys::path::is_absolute(folder))
    return "";
  sys::path::append(folder, "dtc", "cubins");
  return std::string(folder);
}

using Digest = std::array<uint8_t, kDigestBytes>;

Digest digestOf(ArrayRef<char> bytes) {
  return SHA256::hash(ArrayRef(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()));
}

/// Another ptxas under the same path has another size or time.
std::string keyOf(const std::string &ptxas, StringRef ptx, const std::string &architecture) {
  sys::fs::file_status tool;
  if (sys::fs::status(ptxas, tool))
    return "";
  SHA256 hash;
  for (StringRef part : {StringRef(ptxas), StringRef(architecture), ptx}) {
    hash.update(std::to_string(part.size()) + " ");
    hash.update(part);
  }
  hash.update(std::to_string(tool.getSize()) + " " +
              std::to_string(tool.getLastModificationTime().time_since_epoch().count()));
  Digest digest = hash.final();
  return toHex(digest, /*LowerCase=*/true);
}

/// An entry is a cubin with its digest behind it. None where the file is damaged.
std::optional<std::vector<char>> readEntry(StringRef entry) {
  if (entry.size() < kDigestBytes)
    return std::nullopt;
  StringRef cubin = entry.drop_back(kDigestBytes);
  Digest digest = digestOf(ArrayRef(cubin.data(), cubin.size()));
  if (entry.take_back(kDigestBytes) !=
      StringRef(reinterpret_cast<const char *>(digest.data()), digest.size()))
    return std::nullopt;
  return std::vector<char>(cubin.begin(), cubin.end());
}

void prune(StringRef folder) {
  CachePruningPolicy policy;
  policy.Interval = std::chrono::seconds(0);
  policy.Expiration = std::chrono::seconds(0);  // never
  policy.MaxSizePercentageOfAvailableSpace = 0; // no bound of this kind
  policy.MaxSizeBytes = kMostBytes;
  pruneCache(folder, policy);
}

/// Keeps a cubin; where that fails, it is made again next time.
void keep(const AddStreamFn &addStream, const std::vector<char> &cubin) {
  auto file = addStream(0, "");
  if (!file) {
    consumeError(file.takeError());
    return;
  }
  Digest digest = digestOf(cubin);
  auto &stream = static_cast<raw_fd_ostream &>(*(*file)->OS);
  stream.write(cubin.data(), cubin.size());
  stream.write(reinterpret_cast<const char *>(digest.data()), digest.size());
  stream.flush();
  stream.clear_error(); // of a full disk: the entry is damaged, and isn't taken
  consumeError((*file)->commit());
}

} // namespace

Cubin cachedCubin(const std::string &ptxas, StringRef ptx, const std::string &architecture,
                  function_ref<Cubin()> assemble) {
  std::string folder = folderOfCache(), key = keyOf(ptxas, ptx, architecture);
  if (folder.empty() || key.empty())
    return assemble();
  std::optional<std::vector<char>> kept;
  auto cache = localCache("cubins", "cubin", folder,
                          [&](unsigned, const Twine &, std::unique_ptr<MemoryBuffer> entry) {
                            kept = readEntry(entry->getBuffer());
                          });
  if (!cache) {
    consumeError(cache.takeError());
    return assemble();
  }
  auto addStream = (*cache)(0, key, "");
  if (!addStream) {
    consumeError(addStream.takeError());
    return assemble();
  }
  if (kept)
    return std::move(*kept);
  Cubin made = assemble();
  if (made && *addStream) { // a damaged entry stays, and is never taken
    keep(*addStream, *made);
    prune(folder);
  }
  return made;
}

} // namespace dtc::cuda
