// NVIDIA's assembler, where it is found: PTX to machine code of one architecture.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace dtc::cuda {

/// The path of ptxas: $DTC_PTXAS, else on PATH, else in the bin folder of $CUDA_HOME; empty where
/// there is none.
std::string findPtxas();

/// The cubin of `ptx` for an architecture ("sm_90"). The error has the command and what it said.
llvm::Expected<std::vector<char>> assemble(const std::string &ptxas, llvm::StringRef ptx,
                                           const std::string &architecture);

} // namespace dtc::cuda
