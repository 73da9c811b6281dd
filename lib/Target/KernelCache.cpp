#include "dtc/Target/KernelCache.h"

#include "dtc-io/UserCache.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

#include <array>
#include <link.h>

using namespace llvm;

namespace dtc::target {
namespace {

constexpr uint64_t kMostBytes = uint64_t(512) << 20;
constexpr uint64_t kMostEntries = 32768;
constexpr uint64_t kLargestEntry = uint64_t(64) << 20;
constexpr size_t kDigestBytes = 32;

using Digest = std::array<uint8_t, kDigestBytes>;

Digest digestOf(ArrayRef<char> bytes) {
  return SHA256::hash(ArrayRef(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()));
}

StringRef textOf(const Digest &digest) {
  return {reinterpret_cast<const char *>(digest.data()), digest.size()};
}

/// An entry is a kernel with its digest behind it. None where the file is damaged.
std::optional<std::vector<char>> readEntry(StringRef entry) {
  if (entry.size() < kDigestBytes)
    return std::nullopt;
  StringRef kernel = entry.drop_back(kDigestBytes);
  if (entry.take_back(kDigestBytes) != textOf(digestOf(ArrayRef(kernel.data(), kernel.size()))))
    return std::nullopt;
  return std::vector<char>(kernel.begin(), kernel.end());
}

Error writeEntry(raw_ostream &out, ArrayRef<char> kernel) {
  auto &file = static_cast<raw_fd_ostream &>(out);
  file.write(kernel.data(), kernel.size());
  file << textOf(digestOf(kernel));
  file.flush();
  std::error_code code = file.error(); // of a full disk
  file.clear_error();
  return errorCodeToError(code);
}

bool holds(const dl_phdr_info &image, uint64_t address) {
  for (const auto &segment : ArrayRef(image.dlpi_phdr, image.dlpi_phnum))
    if (segment.p_type == PT_LOAD && address - image.dlpi_addr - segment.p_vaddr < segment.p_memsz)
      return true;
  return false;
}

} // namespace

KernelCache::KernelCache() : folder(io::inUserCache("kernels", io::Variable::KernelCache)) {}

KernelCache::~KernelCache() {
  if (!hasGrown)
    return;
  CachePruningPolicy policy;
  policy.Interval = std::chrono::seconds(0);
  policy.Expiration = std::chrono::seconds(0);  // never
  policy.MaxSizePercentageOfAvailableSpace = 0; // no bound of this kind
  policy.MaxSizeBytes = kMostBytes;
  policy.MaxSizeFiles = kMostEntries;
  pruneCache(folder, policy);
}

std::string KernelCache::keyOf(ArrayRef<StringRef> parts) {
  SHA256 hash;
  for (StringRef part : parts) {
    hash.update(std::to_string(part.size()) + " ");
    hash.update(part);
  }
  return toHex(hash.final(), /*LowerCase=*/true);
}

std::string KernelCache::identityOf(const std::string &path) {
  sys::fs::file_status file;
  if (sys::fs::status(path, file))
    return "";
  return path + " " + std::to_string(file.getSize()) + " " +
         std::to_string(file.getLastModificationTime().time_since_epoch().count());
}

std::string KernelCache::compilerIdentity() {
  std::string identity;
  dl_iterate_phdr(
      [](dl_phdr_info *image, size_t, void *identity) {
        SmallString<128> path(image->dlpi_name);
        if (path.empty())
          (void)sys::fs::real_path("/proc/self/exe", path);
        StringRef name = sys::path::filename(path);
        if (holds(*image, reinterpret_cast<uint64_t>(&compilerIdentity)) ||
            name.starts_with("libLLVM") || name.starts_with("libMLIR"))
          *static_cast<std::string *>(identity) += identityOf(path.str().str()) + ";";
        return 0;
      },
      &identity);
  return identity;
}

/// Only files whose names begin so are ever removed.
std::string KernelCache::pathOf(const std::string &key) const {
  SmallString<128> path(folder);
  sys::path::append(path, "llvmcache-" + key);
  return path.str().str();
}

std::optional<std::vector<char>> KernelCache::find(const std::string &key) const {
  if (folder.empty())
    return std::nullopt;
  std::string path = pathOf(key);
  sys::fs::file_status status;
  if (sys::fs::status(path, status) || status.type() != sys::fs::file_type::regular_file ||
      status.getSize() > kLargestEntry) // others may be waited for
    return std::nullopt;
  auto file = sys::fs::openNativeFileForRead(path, sys::fs::OF_UpdateAtime);
  if (!file) {
    consumeError(file.takeError());
    return std::nullopt;
  }
  auto entry = MemoryBuffer::getOpenFile(*file, path, /*FileSize=*/-1,
                                         /*RequiresNullTerminator=*/false);
  (void)sys::fs::closeFile(*file);
  return entry ? readEntry((*entry)->getBuffer()) : std::nullopt;
}

void KernelCache::keep(const std::string &key, ArrayRef<char> bytes) {
  if (folder.empty() || sys::fs::create_directories(folder))
    return;
  Error failed =
      writeToOutput(pathOf(key), [&](raw_ostream &out) { return writeEntry(out, bytes); });
  hasGrown = hasGrown || !failed;
  consumeError(std::move(failed));
}

} // namespace dtc::target
