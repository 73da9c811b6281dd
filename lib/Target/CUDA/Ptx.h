// From LLVM IR to PTX.
#pragma once

#include "dtc/Target/PartCompiler.h"

#include <vector>

namespace dtc::cuda {

/// The oldest GPU that kernels are made for: its PTX runs on all later ones.
inline constexpr const char *kOldestArchitecture = "sm_80";

/// The PTX of a module, as text. Several threads may compile modules at once.
llvm::Expected<std::vector<char>> compilePtx(target::TranslatedModule &translated);

} // namespace dtc::cuda
