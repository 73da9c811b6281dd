#include "CubinCache.h"

#include "dtc-io/UserCache.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"

#include <array>

using namespace llvm;

namespace dtc::cuda {
namespace {

constexpr uint64_t kMostBytes = uint64_t(512) << 20;
constexpr uint64_t kMostEntries = 16384;
constexpr size_t kDigestBytes = 32;
/// Another text where `assemble` makes other cubins of the same kernels.
constexpr StringRef kHowAssembled = "without spills";

using Digest = std::array<uint8_t, kDigestBytes>;

Digest digestOf(ArrayRef<char> bytes) {
  return SHA256::hash(ArrayRef(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()));
}

/// Another ptxas under the same path has another size or time.
std::string identityOf(const std::string &ptxas) {
  sys::fs::file_status tool;
  if (sys::fs::status(ptxas, tool))
    return "";
  return ptxas + " " + std::to_string(tool.getSize()) + " " +
         std::to_string(tool.getLastModificationTime().time_since_epoch().count());
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
  policy.MaxSizeFiles = kMostEntries;
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

CubinCache::CubinCache(std::string ptxas)
    : ptxas(std::move(ptxas)), tool(identityOf(this->ptxas)),
      folder(io::inUserCache("cubins", io::Variable::CubinCache)) {}

CubinCache::~CubinCache() {
  if (hasGrown)
    prune(folder);
}

std::string CubinCache::keyOf(const PtxKernel &kernel, const std::string &architecture) const {
  SHA256 hash;
  for (StringRef part :
       {kHowAssembled, StringRef(tool), StringRef(architecture), StringRef(kernel.ptx)}) {
    hash.update(std::to_string(part.size()) + " ");
    hash.update(part);
  }
  Digest digest = hash.final();
  return toHex(digest, /*LowerCase=*/true);
}

/// As llvm::localCache names it.
std::string CubinCache::pathOf(const std::string &key) const {
  SmallString<128> path(folder);
  sys::path::append(path, "llvmcache-" + key);
  return path.str().str();
}

Cubin CubinCache::get(const PtxKernel &kernel, const std::string &architecture) {
  if (folder.empty() || tool.empty())
    return assemble(ptxas, kernel, architecture);
  std::optional<std::vector<char>> kept;
  auto cache = localCache("cubins", "cubin", folder,
                          [&](unsigned, const Twine &, std::unique_ptr<MemoryBuffer> entry) {
                            kept = readEntry(entry->getBuffer());
                          });
  if (!cache) {
    consumeError(cache.takeError());
    return assemble(ptxas, kernel, architecture);
  }
  const std::string key = keyOf(kernel, architecture);
  auto addStream = (*cache)(0, key, "");
  if (addStream && !*addStream && !kept) { // it is damaged
    (void)sys::fs::remove(pathOf(key));
    addStream = (*cache)(0, key, "");
  }
  if (!addStream) {
    consumeError(addStream.takeError());
    return assemble(ptxas, kernel, architecture);
  }
  return kept ? Cubin(std::move(*kept)) : make(kernel, architecture, *addStream);
}

/// Makes a cubin and keeps it, if there is a stream for it.
Cubin CubinCache::make(const PtxKernel &kernel, const std::string &architecture,
                       const AddStreamFn &addStream) {
  Cubin made = assemble(ptxas, kernel, architecture);
  if (made && addStream) {
    keep(addStream, *made);
    hasGrown = true;
  }
  return made;
}

} // namespace dtc::cuda
