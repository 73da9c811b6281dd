// All ranks together compute what one computes: every op, every legal choice of
// axes for one or two of its factors, and random layouts of all operands.
// RUN: dtc-opt %S/../Graph/rules.mlir -test-partition="isolate trials=40 int-bound=10" | FileCheck %s
// RUN: dtc-opt %S/../Graph/rules.mlir -test-partition="isolate trials=40 int-bound=10 mesh=2,2,2 seed=7" | FileCheck %s
// RUN: dtc-opt %S/../Graph/rules.mlir -test-partition="isolate trials=10 int-bound=10 mesh=4 seed=3" | FileCheck %s
// RUN: dtc-opt %s -test-partition="trials=100" | FileCheck %s --check-prefix=BLOCK

// CHECK: test.partitions = {{[0-9][0-9][0-9]}}
// BLOCK: test.partitions = {{[0-9][0-9][0-9]}}

// A transformer block: values are read more than once and in several layouts.
func.func @block(%x: tensor<2x4x8xf32>, %g: tensor<8xf32>, %wq: tensor<8x4x2xf32>,
                 %wk: tensor<8x2x2xf32>, %wv: tensor<8x2x2xf32>, %wo: tensor<4x2x8xf32>,
                 %w1: tensor<8x16xf32>, %w2: tensor<16x8xf32>, %target: tensor<2x4xi64>) -> (tensor<f32>, tensor<8x16xf32>) {
  %n, %r = dtc.rms_norm %x scale %g : tensor<8xf32> eps 1.0e-5 : tensor<2x4x8xf32> -> tensor<2x4x8xf32>, tensor<2x4xf32>
  %q = dtc.contract %n [0, 1, 2], %wq [2, 3, 4] -> [0, 1, 3, 4] : tensor<2x4x8xf32>, tensor<8x4x2xf32> -> tensor<2x4x4x2xf32>
  %k = dtc.contract %n [0, 1, 2], %wk [2, 3, 4] -> [0, 1, 3, 4] : tensor<2x4x8xf32>, tensor<8x2x2xf32> -> tensor<2x4x2x2xf32>
  %v = dtc.contract %n [0, 1, 2], %wv [2, 3, 4] -> [0, 1, 3, 4] : tensor<2x4x8xf32>, tensor<8x2x2xf32> -> tensor<2x4x2x2xf32>
  %a, %lse = dtc.attention %q, %k, %v scale 0.7 causal
      : tensor<2x4x4x2xf32>, tensor<2x4x2x2xf32>, tensor<2x4x2x2xf32> -> tensor<2x4x4x2xf32>, tensor<2x4x4xf32>
  %o = dtc.contract %a [0, 1, 2, 3], %wo [2, 3, 4] -> [0, 1, 4] : tensor<2x4x4x2xf32>, tensor<4x2x8xf32> -> tensor<2x4x8xf32>
  %y = arith.addf %x, %o : tensor<2x4x8xf32>
  %flat = dtc.reshape %y : tensor<2x4x8xf32> -> tensor<8x8xf32>
  %h = dtc.contract %flat [0, 1], %w1 [1, 2] -> [0, 2] : tensor<8x8xf32>, tensor<8x16xf32> -> tensor<8x16xf32>
  %s = dtc.activation gelu_tanh %h : tensor<8x16xf32>
  %m = dtc.contract %s [0, 1], %w2 [1, 2] -> [0, 2] : tensor<8x16xf32>, tensor<16x8xf32> -> tensor<8x8xf32>
  %z = dtc.sum %m, %flat, %m : tensor<8x8xf32>
  %t = dtc.transpose %z [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
  %dw = dtc.contract %t [1, 0], %h [0, 2] -> [1, 2] : tensor<8x8xf32>, tensor<8x16xf32> -> tensor<8x16xf32>
  %logits = dtc.reshape %z : tensor<8x8xf32> -> tensor<2x4x8xf32>
  %loss, %l = dtc.cross_entropy %logits, %target ignore 3 : tensor<2x4x8xf32>, tensor<2x4xi64> -> tensor<2x4xf32>, tensor<2x4xf32>
  %sum = dtc.reduce sum %loss [0, 1] : tensor<2x4xf32> -> tensor<f32>
  return %sum, %dw : tensor<f32>, tensor<8x16xf32>
}
