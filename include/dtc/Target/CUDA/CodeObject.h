// Kernels as code of GPUs: PTX, and a cubin of each kernel for each architecture.
#pragma once

#include "dtc/Target/PartCompiler.h"

#include <string>
#include <vector>

namespace dtc::cuda {

struct CompileOptions {
  std::vector<std::string> architectures; ///< "sm_90"; of which cubins are made
  unsigned threads = 0;                   ///< 0: as many as the machine has
};

/// `kernels.ptx`, which every GPU from sm_80 on can take, and, where ptxas is found,
/// `sm_90/rows_0.cubin` and so on. A kernel is an entry with a pointer for each operand, then for
/// each result.
class KernelCompilation : public target::PartwiseCompilation {
public:
  KernelCompilation(mlir::MLIRContext &context, const CompileOptions &options);

private:
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> emit(exec::KernelOp kernel) const override;
  llvm::Expected<target::CodeObject> link(std::vector<std::vector<char>> parts) const override;

  CompileOptions options;
};

} // namespace dtc::cuda
