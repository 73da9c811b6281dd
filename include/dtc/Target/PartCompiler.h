// Parts of an artifact's code, compiled by threads while the caller makes further ones.
//
//     PartCompiler parts(threads, {"object for znver3", lowerToLLVM, compile});
//     parts.handIn(module);            // as often as there are parts; threads begin
//     parts.close();
//     auto objects = parts.finish();   // helps and waits
//
// Equal parts are compiled once. What an earlier compilation kept of them isn't compiled at all.
#pragma once

#include "dtc/Target/Target.h"

#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <memory>
#include <string>
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

/// How parts are compiled.
struct PartMethod {
  std::string code; ///< tells what is made from all else that could be of the same module
  std::function<mlir::LogicalResult(mlir::ModuleOp)> lower; ///< to the LLVM dialect
  std::function<llvm::Expected<std::vector<char>>(TranslatedModule &)> compile; ///< by any thread
};

class PartCompiler {
public:
  /// At most `threads` compile at once, the one that calls `finish` among them; 0: as many as the
  /// machine has.
  PartCompiler(unsigned threads, PartMethod method);
  /// Gives up what isn't compiled yet.
  ~PartCompiler();

  /// The number of the part: that of an equal one before, or else the next. The module is lowered
  /// where it must be compiled.
  mlir::FailureOr<size_t> handIn(mlir::ModuleOp part);
  /// There are no further parts.
  void close();
  /// To be called once, after `close`: of each part by number. Gives the error of the first part
  /// that has one.
  llvm::Expected<std::vector<std::vector<char>>> finish();

private:
  struct State;
  std::unique_ptr<State> state;
};

/// A compilation in which each kernel is a part, or shares that of an equal one before.
class PartwiseCompilation : public KernelCompilation {
public:
  mlir::LogicalResult add(exec::KernelOp kernel) final;
  mlir::LogicalResult close() final;
  llvm::Expected<CodeObject> finish() final;

protected:
  PartwiseCompilation(unsigned threads, PartMethod method) : parts(threads, std::move(method)) {}

  /// What a kernel does as a module of its own, which doesn't tell the kernel's name.
  virtual mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> emit(exec::KernelOp kernel) const = 0;
  /// Makes the artifact's code of the compiled parts.
  virtual llvm::Expected<CodeObject> link(std::vector<std::vector<char>> parts) const = 0;

  std::vector<std::string> symbols; ///< of the kernels
  std::vector<size_t> partOf;       ///< by kernel

private:
  PartCompiler parts;
};

} // namespace dtc::target
