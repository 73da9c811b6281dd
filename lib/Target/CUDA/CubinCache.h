// Cubins that ptxas has made before, in a folder of the user.
//
// An entry's name is a hash of the PTX, the architecture and the ptxas that would be run. The
// folder is $DTC_CUBIN_CACHE, else dtc/cubins in that of the user's caches; `off` keeps nothing. It
// holds at most half a gigabyte: what wasn't read for longest goes first.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace dtc::cuda {

using Cubin = llvm::Expected<std::vector<char>>;

/// The cubin of `ptx` for an architecture: as it was kept, else what `assemble` makes. A folder
/// that can't be used is as good as none.
Cubin cachedCubin(const std::string &ptxas, llvm::StringRef ptx, const std::string &architecture,
                  llvm::function_ref<Cubin()> assemble);

} // namespace dtc::cuda
