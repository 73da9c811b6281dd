// Kernels as machine code.
#pragma once

#include "mlir/IR/BuiltinOps.h"

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

/// Compiles every exec.kernel of the module; the module stays as it is. Fails
/// with a diagnostic at the op that cannot be compiled. The same module and
/// options give the same bytes.
mlir::FailureOr<CodeObject> compileKernels(mlir::ModuleOp module, const CompileOptions &options);

} // namespace dtc::cpu
