// Kernels as machine code of processors.
#pragma once

#include "dtc/Target/PartCompiler.h"

#include <memory>
#include <string>
#include <vector>

namespace dtc::cpu {

class ObjectCompiler;

struct CompileOptions {
  std::string cpu;                   ///< LLVM's name; empty: the host's, with its features
  std::vector<std::string> features; ///< for a named cpu: further features
  unsigned threads = 0;              ///< 0: as many as the machine has
};

/// A position-independent shared object without dependencies but libm, whose
/// only visible symbols are the kernels (rt::KernelFunction, see
/// dtc-rt/Program/PackageFormat.h). Kernels of the same loops, as those of more or fewer rows,
/// share code, and target::KernelCache keeps it for later compilations.
class KernelCompilation : public target::PartwiseCompilation {
public:
  KernelCompilation(mlir::MLIRContext &context, const CompileOptions &options);

private:
  explicit KernelCompilation(unsigned threads, std::shared_ptr<ObjectCompiler> compiler);
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> emit(exec::KernelOp kernel) const override;
  llvm::Expected<target::CodeObject> link(std::vector<std::vector<char>> objects) const override;

  std::shared_ptr<ObjectCompiler> compiler; ///< which threads use until all are done
};

} // namespace dtc::cpu
