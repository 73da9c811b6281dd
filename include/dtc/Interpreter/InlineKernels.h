// A program of kernels and library calls, as the interpreter can carry it out.
//
//     %y = exec.launch @pointwise_0(%x) extent 64 ... : (tensor<8x8xf32>) -> tensor<8x8xf32>
//
// becomes the kernel's body, of which this launch reads and writes tensors of other shapes:
//
//     %a = dtc.reshape %x : tensor<8x8xf32> -> tensor<64xf32>
//     %b = math.exp %a : tensor<64xf32>
//     %y = dtc.reshape %b : tensor<64xf32> -> tensor<8x8xf32>
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace dtc::interpreter {

/// A copy of a module, or of those of a pipeline's ranks in it, without launches. Fails with a
/// diagnostic at a launch whose tensors aren't those of its kernel.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> inlineKernels(mlir::ModuleOp module);

} // namespace dtc::interpreter
