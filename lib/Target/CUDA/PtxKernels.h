// The kernels of a PTX program, each as a program of its own.
//
//   .visible .entry rows_3(.param .u64 rows_3_param_0)    one of several, the fourth of its part
//   { ... $L__BB3_1: ... }
//
//   .visible .entry dtc_ke(.param .u64 dtc_ke_param_0)    alone
//   { ... $L__BB0_1: ... }
//
// Such a text has neither its number nor what stood beside it, so that equal kernels have equal
// texts, in whatever program they are. ptxas makes the same instructions of a kernel that is alone.
// What stands for the name is as long as the name. So it becomes the name within a cubin, and
// nothing there moves.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace dtc::cuda {

struct PtxKernel {
  std::string name;
  std::string ptx; ///< a program
};

/// What stands for the name of a kernel, in its text and in its cubin. Names that are so short that
/// others could contain their stand-in stay, and so do very long ones.
llvm::StringRef standInOf(llvm::StringRef name);

/// In their order. Fails at a line that belongs to no kernel and declares nothing.
llvm::Expected<std::vector<PtxKernel>> splitPtx(llvm::StringRef ptx);

/// Gives the kernel of a cubin its name, where it has the stand-in's.
llvm::Error nameKernel(std::vector<char> &cubin, llvm::StringRef name);

} // namespace dtc::cuda
