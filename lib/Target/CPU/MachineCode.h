// From LLVM dialect to a shared object.
#pragma once

#include "dtc/Target/CPU/Features.h"
#include "dtc/Target/PartCompiler.h"

#include <string>
#include <vector>

namespace dtc::cpu {

struct MachineOptions {
  Processor processor;
  unsigned optLevel = 3;
  std::string dumpPath; ///< if set: path.ll and path.o are left
};

/// The object file of a module, optimized for a processor. Several threads may compile modules
/// at once.
llvm::Expected<std::vector<char>> compileObject(target::TranslatedModule &translated,
                                                const MachineOptions &options);

/// Links object files into a shared object that exports `symbols`. Each of the definitions,
/// SAME=SYMBOL, gives the code of a symbol to another one, too.
llvm::Expected<std::vector<char>> linkSharedObject(const std::vector<std::vector<char>> &objects,
                                                   const std::vector<std::string> &symbols,
                                                   const std::vector<std::string> &definitions);

} // namespace dtc::cpu
