#ifndef DTC_KERNELS_PASSES_TD
#define DTC_KERNELS_PASSES_TD

include "mlir/Pass/PassBase.td"

def BatchTotals : Pass<"dtc-batch-totals", "::mlir::ModuleOp"> {
  let summary = "add many tensors up by one kernel";
  let description = [{
    For targets whose kernels can have pieces (Target.h). What is added to one sum of scalars, as
    the squares of all gradients are to their norm, becomes one kernel that adds up parts of many
    tensors, and a sum over these.

        %s = arith.mulf %g, %g : tensor<96x64xf32>
        %t = dtc.reduce sum %s [0, 1] : tensor<96x64xf32> -> tensor<f32>
        ... %u of another tensor, %h, likewise
        %norm = dtc.sum %t, %u : tensor<f32>
      becomes
        exec.kernel @rows_0 ... pieces 2 { ... }
        %p = exec.launch @rows_0(%g, %h) ... -> tensor<3xf32>
        %norm = dtc.reduce sum %p [0] : tensor<3xf32> -> tensor<f32>
  }];
  let dependentDialects = ["::dtc::exec::ExecDialect", "::mlir::arith::ArithDialect"];
}

def DecomposeLayers : Pass<"dtc-decompose-layers", "::mlir::ModuleOp"> {
  let summary = "replace layer and optimizer ops by primitive ones";
  let description = [{
    Every op that stands for a small graph (dtc.softmax, dtc.attention,
    dtc.adam_update...) becomes that graph; contractions and convolutions stay.
    What kernels can't do well is then rewritten: sums of disjoint pads become
    concatenations, reductions of whole tensors go by rows first, transposes
    next to a contraction become its index lists, and half precision sums by
    index are taken in f32.

        %0 = dtc.activation relu %x : tensor<8x64xf32>
      becomes
        %c = arith.constant dense<0.0> : tensor<8x64xf32>
        %0 = arith.maximumf %x, %c : tensor<8x64xf32>
  }];
  let dependentDialects = ["::dtc::exec::ExecDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def NormalizeContractions : Pass<"dtc-normalize-contractions", "::mlir::ModuleOp"> {
  let summary = "turn contractions into strided matrix products";
  let description = [{
    Every dtc.contract becomes an exec.matmul. Slices, transposes, reshapes and
    broadcasts in front of it become strides of its operands. Where no strided
    form exists (dtc/Kernels/MatmulForm.h), the fewest bytes are copied by
    dtc.transpose ops that make one exist; forming kernels afterwards fuses
    them with their neighbours.

        %q = dtc.slice %qkv offsets [0, 0, 0] strides [1, 1, 1] : tensor<8x32x192xf32> -> tensor<8x32x64xf32>
        %y = dtc.contract %q [0, 1, 2], %w [2, 3] -> [0, 1, 3] : ...
      becomes
        %y = exec.matmul %qkv, %w batch [] mnk [256, 64, 64]
               strides [192, 1], [64, 1] -> [64, 1] offsets [0, 0] : ...
  }];
  let dependentDialects = ["::dtc::exec::ExecDialect"];
}

def FoldEpilogues : Pass<"dtc-fold-epilogues", "::mlir::ModuleOp"> {
  let summary = "let products add biases, apply GELU and sum up gradients of biases";
  let description = [{
    For targets whose library has epilogues (Target.h). What follows a product that nothing else
    reads becomes its epilogue: the sum with a bias, GELU, the gradient of GELU. So does the sum
    over the rows of an operand, as the gradient of a bias is beside that of a weight. GELU that no
    product takes is decomposed then.

        %1 = exec.matmul %x, %w ... : ... -> tensor<8x64xf32>
        %2 = dtc.broadcast %bias [1] : tensor<64xf32> -> tensor<8x64xf32>
        %3 = arith.addf %1, %2 : tensor<8x64xf32>
        %4 = dtc.activation gelu_tanh %3 : tensor<8x64xf32>
      becomes
        %4 = exec.matmul %x, %w with %bias ... epilogue <bias_gelu> : ... -> tensor<8x64xf32>

    A product that is only added to an accumulator of earlier microbatches is added to it by the
    library, where the target's can. So is the gradient of a convolution's weight.
  }];
  let dependentDialects = ["::dtc::exec::ExecDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def AttentionCalls : Pass<"dtc-attention-calls", "::mlir::ModuleOp"> {
  let summary = "turn attention into library calls on parts of tensors";
  let description = [{
    For targets whose library computes attention. Slices, transposes and reshapes in front of it
    become strides of its operands, where these make up all of what is in memory anyway. A
    concatenation of its results becomes the tensor that they are written to. Where the library
    lacks such strides, kernels copy as they would.

        %qkv = exec.matmul ... -> tensor<8x32x192xbf16>
        %q = dtc.slice %qkv offsets [0, 0, 0] ... -> tensor<8x32x64xbf16>
        %r = dtc.reshape %q : tensor<8x32x64xbf16> -> tensor<8x32x4x16xbf16>
        ... %k and %v likewise
        %o, %lse = dtc.attention %r, %k, %v scale 0.25 : ...
      becomes
        %o, %lse = exec.attention (%qkv, %qkv, %qkv) scale 0.25
            places [#exec.place<0, [8, 32, 4, 16], [6144, 192, 16, 1]>, ...] into [0, 1] : ...
  }];
  let dependentDialects = ["::dtc::exec::ExecDialect"];
}

def FormKernels : Pass<"dtc-form-kernels", "::mlir::ModuleOp"> {
  let summary = "group primitive ops into kernels";
  let description = [{
    Primitive ops of each function are fused into exec.kernels (how: see
    lib/Kernels/Clusters.h), outlined once for all places that compute the
    same, and called by exec.launch. Library calls, collectives and reshapes of
    stored tensors stay in the function. Layers must have been decomposed.

        %0 = dtc.broadcast %bias [1] : tensor<64xf32> -> tensor<8x64xf32>
        %1 = arith.addf %x, %0 : tensor<8x64xf32>
      becomes
        exec.kernel @pointwise_0 extent 8 scratch 0 { ... }
        %1 = exec.launch @pointwise_0(%x, %bias) extent 8 in_place [0]
               : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
  }];
  let dependentDialects = ["::dtc::exec::ExecDialect"];
}

def LayersToKernels : Pass<"dtc-layers-to-kernels", "::mlir::ModuleOp"> {
  let summary = "bring a module to kernels, matrix products and library calls";
  let description = [{
    Does what the six passes above do, function by function, the last one first: in a step
    that is @update. Its kernels are formed soonest, and keep threads that compile them busy
    while deeper functions are decomposed.

        func.func @loss_and_grads ... { %0 = dtc.softmax %x 1 : tensor<8x64xf32> ... }
        func.func @update ... { %0 = dtc.adam_update ... }
      becomes
        exec.kernel @pointwise_0 extent 512 scratch 0 { ... }
        exec.kernel @rows_1 extent 8 scratch 0 { ... }
        func.func @loss_and_grads ... { %0 = exec.launch @rows_1(%x) ... }
        func.func @update ... { %0 = exec.launch @pointwise_0(...) ... }
  }];
  let dependentDialects = ["::dtc::exec::ExecDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

#endif // DTC_KERNELS_PASSES_TD
