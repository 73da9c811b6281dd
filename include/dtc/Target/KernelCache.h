// Kernels that were compiled before, in a folder of the user: objects for processors, PTX, cubins.
//
//     KernelCache cache;
//     std::string key = KernelCache::keyOf({KernelCache::identityOf(ptxas), architecture, ptx});
//     auto cubin = cache.find(key);
//     if (!cubin)
//       cache.keep(key, *(cubin = assemble(ptx)));
//
// The folder is $DTC_KERNEL_CACHE, else dtc/kernels in that of the user's caches; `off` keeps
// nothing. It holds at most half a gigabyte, and 32,768 entries: what wasn't read for longest goes
// first, as far as the file system tells. Compilations may share it: an entry is written aside and
// then renamed. One that is damaged counts as none. Several threads may ask at once.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <atomic>
#include <optional>
#include <string>
#include <vector>

namespace dtc::target {

class KernelCache {
public:
  KernelCache();
  KernelCache(const KernelCache &) = delete;
  /// Keeps the folder's bound.
  ~KernelCache();

  /// 64 digits, others for other parts. They must tell what compiles from what is like it.
  static std::string keyOf(llvm::ArrayRef<llvm::StringRef> parts);
  /// Tells a tool or library from another one under the same path, by its size and time. Empty
  /// where there is none.
  static std::string identityOf(const std::string &path);
  /// Of this program or library, and of those of LLVM and MLIR that it uses.
  static std::string compilerIdentity();

  std::optional<std::vector<char>> find(const std::string &key) const;
  /// Where that fails, it is made again next time.
  void keep(const std::string &key, llvm::ArrayRef<char> bytes);

private:
  std::string pathOf(const std::string &key) const;

  std::string folder; ///< empty: nothing is kept
  std::atomic<bool> hasGrown = false;
};

} // namespace dtc::target
