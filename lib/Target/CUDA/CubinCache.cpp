#include "CubinCache.h"

#include "dtc-io/UserCache.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/Caching.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/SHA256.h"

#include <array>

using namespace llvm;

namespace dtc::cuda {
namespace {

constexpr uint64_t kMostBytes = uint64_t(512) << 20;
constexpr size_t kDigestBytes = 32;

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
  std::string folder = io::inUserCache("cubins", "DTC_CUBIN_CACHE"),
              key = keyOf(ptxas, ptx, architecture);
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
