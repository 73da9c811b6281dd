// From LLVM dialect to a shared object.
#pragma once

#include "dtc/Target/CPU/Features.h"
#include "dtc/Target/PartCompiler.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace llvm {
class TargetMachine;
} // namespace llvm

namespace dtc::cpu {

/// Makes object files of modules, optimized for a processor. Several threads may compile modules at
/// once.
class ObjectCompiler {
public:
  explicit ObjectCompiler(Processor processor);
  ~ObjectCompiler();

  llvm::Expected<std::vector<char>> compile(target::TranslatedModule &translated);
  /// What it makes, in a line: another one for another processor.
  std::string code() const;

  const Processor processor;

private:
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>> takeMachine();

  std::mutex mutex;
  std::vector<std::unique_ptr<llvm::TargetMachine>> idle; ///< made once for each thread
};

/// An object file in which a symbol has another name.
llvm::Expected<std::vector<char>> renameSymbol(llvm::ArrayRef<char> object, llvm::StringRef from,
                                               llvm::StringRef to);

/// Links object files into a shared object that exports `symbols`. Each of the definitions,
/// SAME=SYMBOL, gives the code of a symbol to another one, too.
llvm::Expected<std::vector<char>> linkSharedObject(const std::vector<std::vector<char>> &objects,
                                                   const std::vector<std::string> &symbols,
                                                   const std::vector<std::string> &definitions);

} // namespace dtc::cpu
