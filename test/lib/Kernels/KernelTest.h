// Runs kernels on drawn inputs and compares with what the interpreter makes of their bodies.
#pragma once

#include "dtc/Dialect/Exec/Exec.h"
#include "dtc/Interpreter/Interpreter.h"
#include "dtc/Target/Target.h"

#include "mlir/Pass/Pass.h"

#include <vector>

namespace dtc::test {

using Buffer = std::vector<char>;

/// The buffers of one kernel, and what carries it out.
struct KernelBuffers {
  std::vector<Buffer> inputs, results;
};

/// Compiles all kernels of a module and waits.
mlir::FailureOr<target::CodeObject> compileAll(target::KernelCompilation &kernels,
                                               mlir::ModuleOp module);

class KernelRunner {
public:
  virtual ~KernelRunner() = default;
  /// Runs the kernel. Result i takes the buffer of operand `over[i]`, where that isn't -1, and is
  /// found in `results` all the same.
  virtual mlir::LogicalResult run(exec::KernelOp kernel, KernelBuffers &buffers,
                                  llvm::ArrayRef<int64_t> over) = 0;
};

struct DrawOptions {
  uint64_t seed = 0;
  int64_t intLow = -1, intBound = 8;  ///< least drawn integer, and how many
  double scale = 1, tolerance = 1e-5; ///< of floats; of f32 results
  bool compare = true;
};

/// Inputs as drawn, in memory; results of their sizes.
KernelBuffers drawBuffers(exec::KernelOp kernel, const DrawOptions &options);

/// Compares a run with the interpreter, and one with the results over their operands with the
/// first, bit for bit. Gives the results of the first.
llvm::FailureOr<std::vector<Buffer>> checkKernel(exec::KernelOp kernel, KernelRunner &runner,
                                                 const DrawOptions &options);

/// What the first launch of the kernel says; none where there is no launch.
llvm::SmallVector<int64_t> inPlaceOf(exec::KernelOp kernel);

} // namespace dtc::test
