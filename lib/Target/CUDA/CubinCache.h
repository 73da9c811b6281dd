// Cubins of kernels that ptxas has made before, in a folder of the user.
//
// An entry's name is a hash of the kernel's PTX, in which a stand-in has its name, of the
// architecture and of the ptxas that would be run. The folder is $DTC_CUBIN_CACHE, else dtc/cubins
// in that of the user's caches; `off` keeps nothing. It holds at most half a gigabyte, and 16,384
// entries: what wasn't read for longest goes first. Compilations may share it: an entry is written
// aside and then renamed. One that is damaged is made again.
#pragma once

#include "Ptxas.h"

#include "llvm/Support/Caching.h"

#include <atomic>

namespace dtc::cuda {

class CubinCache {
public:
  /// A folder that can't be used is as good as none.
  explicit CubinCache(std::string ptxas);
  CubinCache(const CubinCache &) = delete;
  /// Keeps the folder's bound.
  ~CubinCache();

  /// A kernel's cubin with the stand-in's name: as it was kept, else as ptxas makes it. Several
  /// threads may ask at once.
  Cubin get(const PtxKernel &kernel, const std::string &architecture);

private:
  std::string keyOf(const PtxKernel &kernel, const std::string &architecture) const;
  std::string pathOf(const std::string &key) const;
  Cubin make(const PtxKernel &kernel, const std::string &architecture,
             const llvm::AddStreamFn &addStream);

  std::string ptxas, tool; ///< what tells it from another one: empty where nothing is kept
  std::string folder;
  std::atomic<bool> hasGrown = false;
};

} // namespace dtc::cuda
