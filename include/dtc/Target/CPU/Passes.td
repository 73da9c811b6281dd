#ifndef DTC_TARGET_CPU_PASSES_TD
#define DTC_TARGET_CPU_PASSES_TD

include "mlir/Pass/PassBase.td"

def DecomposeLayers : Pass<"dtc-decompose-layers", "::mlir::ModuleOp"> {
  let summary = "replace layer and optimizer ops by primitive ones";
  let description = [{
    Every op that stands for a small graph (dtc.softmax, dtc.attention,
    dtc.adam_update...) becomes that graph; contractions and convolutions stay.
    What kernels can't do well is then rewritten: sums of disjoint pads become
    concatenations, reductions of whole tensors go by rows first, transposes
    next to a contraction become its index lists, and half precision sums by
    index are taken in f32.
  }];
  let dependentDialects = ["::dtc::graph::GraphDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def FormKernels : Pass<"dtc-form-kernels", "::mlir::ModuleOp"> {
  let summary = "group primitive ops into kernels";
  let description = [{
    Primitive ops of each function are fused into exec.kernels (how: see
    lib/Target/CPU/Clusters.h), outlined once for all places that compute the
    same, and called by exec.launch. Library calls, collectives and reshapes of
    stored tensors stay in the function. Layers must have been decomposed.

        %0 = dtc.broadcast %bias [1] : tensor<64xf32> -> tensor<8x64xf32>
        %1 = arith.addf %x, %0 : tensor<8x64xf32>
      becomes
        exec.kernel @pointwise_0 extent 8 scratch 0 { ... }
        %1 = exec.launch @pointwise_0(%x, %bias) extent 8 in_place [0]
               : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
  }];
  let dependentDialects = ["::dtc::exec::ExecDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::scf::SCFDialect"];
}

#endif // DTC_TARGET_CPU_PASSES_TD
