// Kernels as machine code.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace dtc::cpu {

struct CompileOptions {
  std::string cpu;                   ///< LLVM's name; empty: the host's, with its features
  std::vector<std::string> features; ///< for a named cpu: further features
  unsigned optLevel = 3;             ///< 0 to 3
  unsigned threads = 0;              ///< 0: as many as the machine has
  std::string dumpDir;               ///< if set: kernels.{mlir,ll,o,so} are left there
};

/// A position-independent shared object without dependencies but libm, whose
/// only visible symbols are the kernels (rt::KernelFunction, see
/// dtc-rt/PackageFormat.h).
struct CodeObject {
  std::vector<char> sharedObject;
  std::vector<std::string> symbols;
  std::string cpu;
  std::vector<std::string> features; ///< what the code needs, as recordedFeatures
};

/// Kernels that threads compile while the caller goes on with something else:
///
///     cpu::KernelCompilation kernels(context, options);
///     ... kernels.add(kernel), as they are formed ...
///     kernels.close();
///     ... plan the memory of what launches them ...
///     llvm::Expected<cpu::CodeObject> code = kernels.finish();
///
/// All that has to do with MLIR is done when `close` returns.
class KernelCompilation {
public:
  KernelCompilation(mlir::MLIRContext &context, const CompileOptions &options);
  KernelCompilation(KernelCompilation &&) noexcept;
  KernelCompilation &operator=(KernelCompilation &&) noexcept;
  /// Gives up what isn't compiled yet.
  ~KernelCompilation();

  /// The kernel stays as it is, and must until `close`. Fails with a diagnostic at the op that
  /// cannot be compiled.
  mlir::LogicalResult add(exec::KernelOp kernel);
  /// There are no further ones.
  mlir::LogicalResult close();

  /// What the code needs, as recordedFeatures.
  std::vector<std::string> features() const;

  /// Helps, waits and links; to be called once. The same kernels, in the same order, and
  /// options give the same bytes, however many threads there are.
  llvm::Expected<CodeObject> finish();

private:
  struct State;
  mlir::LogicalResult handIn();

  std::unique_ptr<State> state;
};

/// Compiles every exec.kernel of the module and waits.
mlir::FailureOr<CodeObject> compileKernels(mlir::ModuleOp module, const CompileOptions &options);

} // namespace dtc::cpu
