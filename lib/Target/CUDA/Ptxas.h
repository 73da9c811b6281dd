// NVIDIA's assembler, where it is found: PTX to machine code of one architecture.
#pragma once

#include "PtxKernels.h"

namespace dtc::cuda {

using Cubin = llvm::Expected<std::vector<char>>;

/// The path of ptxas: $DTC_PTXAS, else on PATH, else in the bin folder of $CUDA_HOME; empty where
/// there is none.
std::string findPtxas();

/// The cubin of a kernel for an architecture ("sm_90"), without spilled registers where ptxas can
/// make one. The error has the command and what it said.
Cubin assemble(const std::string &ptxas, const PtxKernel &kernel, const std::string &architecture);

} // namespace dtc::cuda
