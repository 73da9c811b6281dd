// Kernels as code of GPUs: PTX, and a cubin of each kernel for each architecture.
#pragma once

#include "dtc/Target/Target.h"

#include <memory>
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
class KernelCompilation : public target::KernelCompilation {
public:
  KernelCompilation(mlir::MLIRContext &context, const CompileOptions &options);
  ~KernelCompilation() override;

  mlir::LogicalResult add(exec::KernelOp kernel) override;
  mlir::LogicalResult close() override;
  llvm::Expected<target::CodeObject> finish() override;

private:
  struct State;

  std::unique_ptr<State> state;
};

} // namespace dtc::cuda
