// RUN: dtc-opt %s --dtc-split-passes | FileCheck %s

// The backward pass reads gate, up, silu(gate) and their product. Silu is arithmetic on what is kept, for
// arithmetic: it is made again where it is read. The product is what a contraction reads, and is kept.
// CHECK-LABEL: func.func @forward(
// CHECK: %[[GATE:.*]] = dtc.contract %arg0 [0, 2], %arg1
// CHECK: %[[UP:.*]] = dtc.contract %arg0 [0, 2], %arg2
// CHECK: %[[SILU:.*]] = dtc.activation silu %[[GATE]]
// CHECK: %[[H:.*]] = arith.mulf %[[SILU]], %[[UP]]
// CHECK: return %[[H]], %[[GATE]], %[[UP]], %[[H]]

// CHECK-LABEL: func.func @backward(
// CHECK-SAME: %[[DH:[^:]*]]: tensor<8x4xf32> {dtc.role = #dtc.role<inbox, "c">}
// CHECK-SAME: %[[GATE:[^:]*]]: tensor<8x4xf32> {dtc.role = #dtc.role<kept, "kept 0 of chunk 0">}
// CHECK-SAME: %[[UP:[^:]*]]: tensor<8x4xf32> {dtc.role = #dtc.role<kept, "kept 1 of chunk 0">}
// CHECK-SAME: %[[H:[^:]*]]: tensor<8x4xf32> {dtc.role = #dtc.role<kept, "kept 3 of chunk 0">}
// CHECK-NOT: #dtc.role<kept
// CHECK: %[[SILU:.*]] = dtc.activation silu %[[GATE]]
// CHECK: arith.mulf %[[DH]], %[[SILU]]
module {
  dist.mesh @mesh ["tp" = 1]
  func.func @stage(
      %x: tensor<8x4xf32> {dtc.role = #dtc.role<input, "x">},
      %wg: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "g">},
      %wu: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "u">},
      %dh: tensor<8x4xf32> {dtc.role = #dtc.role<inbox, "c">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<8x4xf32> {dtc.role = #dtc.role<outbox, "b">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<8x4xf32> {dtc.role = #dtc.role<outbox, "d">, dtc.runs = #dtc.runs<microbatch, input_grad>},
          tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "g">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %gate = dtc.contract %x [0, 2], %wg [2, 1] -> [0, 1] {dtc.id = 0 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %up = dtc.contract %x [0, 2], %wu [2, 1] -> [0, 1] {dtc.id = 1 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %silu = dtc.activation silu %gate {dtc.id = 2 : i64} : tensor<8x4xf32>
    %h = arith.mulf %silu, %up {dtc.id = 3 : i64} : tensor<8x4xf32>
    %dgate = arith.mulf %dh, %gate {dtc.backward = #dtc.backward<2, input_grad>} : tensor<8x4xf32>
    %dsilu = arith.mulf %dgate, %up {dtc.backward = #dtc.backward<2, input_grad>} : tensor<8x4xf32>
    %dup = arith.mulf %dh, %silu {dtc.backward = #dtc.backward<3, input_grad>} : tensor<8x4xf32>
    %dx = arith.addf %dup, %dsilu {dtc.backward = #dtc.backward<3, input_grad>} : tensor<8x4xf32>
    %dw = dtc.contract %h [2, 0], %dh [2, 1] -> [0, 1] {dtc.backward = #dtc.backward<0, weight_grad>} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
    return %h, %dx, %dw : tensor<8x4xf32>, tensor<8x4xf32>, tensor<4x4xf32>
  }
}
