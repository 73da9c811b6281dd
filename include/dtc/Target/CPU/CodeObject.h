// Kernels as machine code of processors.
#pragma once

#include "dtc/Target/Target.h"

#include <memory>
#include <string>
#include <vector>

namespace dtc::cpu {

struct CompileOptions {
  std::string cpu;                   ///< LLVM's name; empty: the host's, with its features
  std::vector<std::string> features; ///< for a named cpu: further features
  unsigned threads = 0;              ///< 0: as many as the machine has
};

/// A position-independent shared object without dependencies but libm, whose
/// only visible symbols are the kernels (rt::KernelFunction, see
/// dtc-rt/Program/PackageFormat.h). Kernels of the same loops, as those of more or fewer rows,
/// share code, and target::KernelCache keeps it for later compilations.
class KernelCompilation : public target::KernelCompilation {
public:
  KernelCompilation(mlir::MLIRContext &context, const CompileOptions &options);
  ~KernelCompilation() override;

  mlir::LogicalResult add(exec::KernelOp kernel) override;
  mlir::LogicalResult close() override;
  llvm::Expected<target::CodeObject> finish() override;

private:
  struct State;
  llvm::Expected<std::vector<std::vector<char>>> finishObjects();

  std::unique_ptr<State> state;
};

/// Compiles every exec.kernel of the module and waits.
mlir::FailureOr<target::CodeObject> compileKernels(mlir::ModuleOp module, const CompileOptions &options);

} // namespace dtc::cpu
