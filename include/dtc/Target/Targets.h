// All targets that kernels are compiled for.
#pragma once

#include "dtc/Target/Target.h"

namespace dtc::target {

/// The target of this name; null if there is none.
const Target *find(llvm::StringRef name);

} // namespace dtc::target
