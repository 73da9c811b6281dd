// From LLVM IR to what a back end of LLVM writes.
#pragma once

#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace dtc::target {

/// Optimizes a module for a machine, of which it gets triple and data layout, and gives the object
/// file or the assembly of it.
llvm::Expected<std::vector<char>> emitCode(llvm::Module &module, llvm::TargetMachine &machine,
                                           llvm::OptimizationLevel level,
                                           const llvm::PipelineTuningOptions &tuning,
                                           llvm::CodeGenFileType type);

} // namespace dtc::target
