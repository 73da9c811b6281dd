// From LLVM dialect to a shared object.
#pragma once

#include "dtc/Target/CPU/Features.h"

#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <string>
#include <vector>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace dtc::cpu {

struct MachineOptions {
  Processor processor;
  unsigned optLevel = 3;
  std::string dumpPath; ///< if set: path.ll and path.o are left
};

/// A module in LLVM's own IR, apart from any MLIR context.
struct TranslatedModule {
  TranslatedModule();
  ~TranslatedModule();
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
};

/// Translates a module in the LLVM dialect; null with a diagnostic where that fails.
std::unique_ptr<TranslatedModule> translate(mlir::ModuleOp module);

/// The object file of a module, optimized for a processor. Several threads may compile modules
/// at once.
llvm::Expected<std::vector<char>> compileObject(TranslatedModule &translated,
                                                const MachineOptions &options);

/// Links object files into a shared object that exports `symbols`.
llvm::Expected<std::vector<char>> linkSharedObject(const std::vector<std::vector<char>> &objects,
                                                   const std::vector<std::string> &symbols);

} // namespace dtc::cpu
