// A small language model with tied embeddings and grouped key-value heads: every
// function of its training step computes on all ranks what it computes on one,
// under planned and under random layouts, with one microbatch and with several.
// RUN: dtc-opt %s -dtc-train -test-partition="each=false trials=30" | FileCheck %s
// RUN: dtc-opt %s -dtc-train="microbatches=2 optimizer=sgd momentum=0.9 clip-grad-norm=1" -test-partition="each=false trials=30 mesh=4,2 seed=5" | FileCheck %s
// RUN: dtc-opt %s -dtc-train="precision=bf16 microbatches=2" -test-partition="each=false trials=30 seed=9" | FileCheck %s
// RUN: dtc-opt %s -dtc-train="microbatches=2" -dtc-plan="devices=4 plan=dp=2,tp=2,zero=0" -test-partition="each=false trials=0 given" | FileCheck %s --check-prefix=GIVEN
// RUN: dtc-opt %s -dtc-train -dtc-plan="devices=4 plan=tp=4" -test-partition="each=false trials=0 given" | FileCheck %s --check-prefix=GIVEN
// RUN: dtc-opt %s -dtc-train -dtc-plan="devices=4 plan=dp=4,zero=0" -test-partition="each=false trials=0 given" | FileCheck %s --check-prefix=GIVEN
// RUN: dtc-opt %s -dtc-train -dtc-plan="devices=4 plan=dp=4,zero=0" -dtc-pipeline=partition | FileCheck %s --check-prefix=DP

// CHECK: test.partitions = 30
// GIVEN: test.partitions = 1

// Data parallelism alone: nothing but the count of targets, one bucket, and the step vector.
// DP-LABEL: func.func @loss_and_grads
// DP-NOT: dist.{{all|reduce|slice|permute}}
// DP-LABEL: func.func @prologue
// DP: dist.all_reduce sum %{{[^,]*}} on @mesh {"dp"} : tensor<i64>
// DP-LABEL: func.func @update
// DP: dist.all_reduce sum %{{.*}}, %{{.*}}
// DP-NOT: dist.{{all|reduce|slice|permute}}
// DP: dist.all_reduce sum %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} on @mesh {"dp"} : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
// DP-NOT: dist.
// DP: return

dtc.parameter trainable @embedding : tensor<16x8xf32> file tensor<16x8xf32>
dtc.parameter trainable @norm : tensor<8xf32> file tensor<8xf32>
dtc.parameter trainable @query : tensor<8x4x2xf32> file tensor<8x8xf32>
dtc.parameter trainable @key : tensor<8x2x2xf32> file tensor<8x4xf32>
dtc.parameter trainable @value : tensor<8x2x2xf32> file tensor<8x4xf32>
dtc.parameter trainable @out : tensor<4x2x8xf32> file tensor<8x8xf32>
dtc.parameter trainable @up : tensor<8x16xf32> file tensor<8x16xf32>
dtc.parameter trainable @bias : tensor<16xf32> file tensor<16xf32>
dtc.parameter trainable @down : tensor<16x8xf32> file tensor<16x8xf32>

func.func @forward(%e: tensor<16x8xf32> {dtc.role = #dtc.role<parameter, "embedding">},
                   %g: tensor<8xf32> {dtc.role = #dtc.role<parameter, "norm">},
                   %wq: tensor<8x4x2xf32> {dtc.role = #dtc.role<parameter, "query">},
                   %wk: tensor<8x2x2xf32> {dtc.role = #dtc.role<parameter, "key">},
                   %wv: tensor<8x2x2xf32> {dtc.role = #dtc.role<parameter, "value">},
                   %wo: tensor<4x2x8xf32> {dtc.role = #dtc.role<parameter, "out">},
                   %w1: tensor<8x16xf32> {dtc.role = #dtc.role<parameter, "up">},
                   %b1: tensor<16xf32> {dtc.role = #dtc.role<parameter, "bias">},
                   %w2: tensor<16x8xf32> {dtc.role = #dtc.role<parameter, "down">},
                   %ids: tensor<8x4xi64> {dtc.role = #dtc.role<input, "ids">})
    -> (tensor<8x4x16xf32> {dtc.role = #dtc.role<output, "logits">}) {
  %x = dtc.gather %e, %ids axis 0 : tensor<16x8xf32>, tensor<8x4xi64> -> tensor<8x4x8xf32>
  %n, %r = dtc.rms_norm %x scale %g : tensor<8xf32> eps 1.0e-5 : tensor<8x4x8xf32> -> tensor<8x4x8xf32>, tensor<8x4xf32>
  %q = dtc.contract %n [0, 1, 2], %wq [2, 3, 4] -> [0, 1, 3, 4] : tensor<8x4x8xf32>, tensor<8x4x2xf32> -> tensor<8x4x4x2xf32>
  %k = dtc.contract %n [0, 1, 2], %wk [2, 3, 4] -> [0, 1, 3, 4] : tensor<8x4x8xf32>, tensor<8x2x2xf32> -> tensor<8x4x2x2xf32>
  %v = dtc.contract %n [0, 1, 2], %wv [2, 3, 4] -> [0, 1, 3, 4] : tensor<8x4x8xf32>, tensor<8x2x2xf32> -> tensor<8x4x2x2xf32>
  %a, %lse = dtc.attention %q, %k, %v scale 0.7 causal
      : tensor<8x4x4x2xf32>, tensor<8x4x2x2xf32>, tensor<8x4x2x2xf32> -> tensor<8x4x4x2xf32>, tensor<8x4x4xf32>
  %o = dtc.contract %a [0, 1, 2, 3], %wo [2, 3, 4] -> [0, 1, 4] : tensor<8x4x4x2xf32>, tensor<4x2x8xf32> -> tensor<8x4x8xf32>
  %y = arith.addf %x, %o : tensor<8x4x8xf32>
  %h0 = dtc.contract %y [0, 1, 2], %w1 [2, 3] -> [0, 1, 3] : tensor<8x4x8xf32>, tensor<8x16xf32> -> tensor<8x4x16xf32>
  %b = dtc.broadcast %b1 [2] : tensor<16xf32> -> tensor<8x4x16xf32>
  %h = arith.addf %h0, %b : tensor<8x4x16xf32>
  %s = dtc.activation gelu_tanh %h : tensor<8x4x16xf32>
  %m = dtc.contract %s [0, 1, 2], %w2 [2, 3] -> [0, 1, 3] : tensor<8x4x16xf32>, tensor<16x8xf32> -> tensor<8x4x8xf32>
  %z = arith.addf %y, %m : tensor<8x4x8xf32>
  %logits = dtc.contract %z [0, 1, 2], %e [3, 2] -> [0, 1, 3] : tensor<8x4x8xf32>, tensor<16x8xf32> -> tensor<8x4x16xf32>
  return %logits : tensor<8x4x16xf32>
}
