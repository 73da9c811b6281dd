// Parts of an artifact's code, compiled by threads while the caller makes further ones.
//
//     PartCompiler parts(threads, [](TranslatedModule &module, size_t number) { ... });
//     parts.handIn(translate(module));  // as often as there are parts; threads begin
//     parts.close();
//     auto objects = parts.finish();    // helps and waits; in the order of handing in
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <memory>
#include <vector>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace dtc::target {

/// A module in LLVM's own IR, apart from any MLIR context.
struct TranslatedModule {
  TranslatedModule();
  ~TranslatedModule();
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
};

/// Translates a module in the LLVM dialect; null with a diagnostic where that fails.
std::unique_ptr<TranslatedModule> translate(mlir::ModuleOp module);

class PartCompiler {
public:
  using Compile =
      std::function<llvm::Expected<std::vector<char>>(TranslatedModule &part, size_t number)>;

  /// At most `threads` compile at once, the one that calls `finish` among them; 0: as many as the
  /// machine has.
  PartCompiler(unsigned threads, Compile compile);
  /// Gives up what isn't compiled yet.
  ~PartCompiler();

  void handIn(std::unique_ptr<TranslatedModule> part);
  /// There are no further parts.
  void close();
  /// To be called once, after `close`. Gives the error of the first part that has one.
  llvm::Expected<std::vector<std::vector<char>>> finish();

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace dtc::target
