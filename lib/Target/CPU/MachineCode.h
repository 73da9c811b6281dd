// From LLVM dialect to a shared object.
#pragma once

#include "dtc/Target/CPU/Features.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace dtc::cpu {

struct MachineOptions {
  Processor processor;
  unsigned optLevel = 3;
  std::string dumpPath; ///< if set: path.ll and path.o are left
};

/// The object file of a module in the LLVM dialect, optimized for a processor.
/// Modules may be compiled by several threads at once.
llvm::Expected<std::vector<char>> compileObject(mlir::ModuleOp module,
                                                const MachineOptions &options);

/// Links object files into a shared object that exports `symbols`.
llvm::Expected<std::vector<char>> linkSharedObject(const std::vector<std::vector<char>> &objects,
                                                   const std::vector<std::string> &symbols);

} // namespace dtc::cpu
