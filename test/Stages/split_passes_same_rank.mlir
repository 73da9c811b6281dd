// RUN: dtc-opt %s --dtc-split-passes=split-backward --verify-roundtrip | FileCheck %s

// Both neighbours of this stage are on its rank. What they leave in its slots, and what it leaves
// for them, is read there by later passes: nothing is kept twice.

// CHECK-LABEL: func.func @forward_1(
// CHECK-SAME: #dtc.role<kept, "a">
// CHECK-SAME: -> (tensor<8x4xf32> {dtc.role = #dtc.role<kept, "b">})
// CHECK-LABEL: func.func @input_grad_1(
// CHECK-SAME: #dtc.role<kept, "c">
// CHECK-SAME: #dtc.role<kept, "b">
// CHECK-SAME: -> (tensor<8x4xf32> {dtc.role = #dtc.role<kept, "d">}, tensor<8x4xf32> {dtc.role = #dtc.role<kept, "kept 2 of chunk 1">})
// CHECK-LABEL: func.func @weight_grad_1(
// CHECK-SAME: #dtc.role<kept, "a">
// CHECK-SAME: #dtc.role<kept, "kept 2 of chunk 1">
module {
  dist.mesh @mesh ["tp" = 2]
  func.func @stage_1(
      %x: tensor<8x4xf32> {dtc.role = #dtc.role<kept, "a">, dtc.runs = #dtc.runs<microbatch, forward>},
      %w: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">},
      %dz: tensor<8x4xf32> {dtc.role = #dtc.role<kept, "c">, dtc.runs = #dtc.runs<microbatch, input_grad>},
      %g: tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w">})
      -> (tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w">},
          tensor<8x4xf32> {dtc.role = #dtc.role<kept, "b">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<8x4xf32> {dtc.role = #dtc.role<kept, "d">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward, chunk 1>} {
    %y = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] {dtc.id = 0 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %z = math.tanh %y {dtc.id = 1 : i64} : tensor<8x4xf32>
    %dy = arith.mulf %dz, %z {dtc.backward = #dtc.backward<1, input_grad>} : tensor<8x4xf32>
    %dw = dtc.contract %x [2, 0], %dy [2, 1] -> [0, 1] {dtc.backward = #dtc.backward<0, weight_grad>} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
    %dx = dtc.contract %dy [0, 2], %w [1, 2] -> [0, 1] {dtc.backward = #dtc.backward<0, input_grad>} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %sum = dtc.sum %g, %dw : tensor<4x4xf32>
    return %sum, %z, %dx : tensor<4x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
  }
}
