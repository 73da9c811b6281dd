// Kernels in PTX, each a program of its own.
//
//   .visible .entry dtc_kernel_whose_name_stands_elsewhere__(...)   as it is compiled
//   .visible .entry dtc_ke(.param .u64 dtc_ke_param_0)              as ptxas gets it, for rows_3
//   .visible .entry rows_3(.param .u64 rows_3_param_0)              in the artifact
//
// Equal kernels so have equal texts, in whatever program they are. ptxas makes the same
// instructions of a kernel that is alone. What stands for the name is as long as the name. So it
// becomes the name within a cubin, and nothing there moves.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace dtc::cuda {

/// The name that kernels are compiled with. Names of what belongs to them begin with it.
inline constexpr llvm::StringLiteral kStandIn = "dtc_kernel_whose_name_stands_elsewhere__";

/// What stands for the name of a kernel before ptxas, and in its cubin. Names that are so short
/// that others could contain their stand-in stay, and so do very long ones.
llvm::StringRef standInOf(llvm::StringRef name);

struct PtxKernel {
  PtxKernel(std::string name, llvm::StringRef compiled);

  std::string name;
  std::string ptx; ///< a program with the stand-in of that name
};

/// One program of several, with their names.
std::string joinPtx(llvm::ArrayRef<PtxKernel> kernels);

/// Gives the kernel of a cubin its name, where it has the stand-in's.
llvm::Error nameKernel(std::vector<char> &cubin, llvm::StringRef name);

} // namespace dtc::cuda
