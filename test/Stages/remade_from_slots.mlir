// RUN: dtc-opt %s --dtc-split-passes=split-backward | FileCheck %s

// The call of input gradients reads y = c * s, that of weight gradients c alone. A slot has c until the
// last of them is made, so y is made again of it and has no place of its own.
// CHECK-LABEL: func.func @forward(
// CHECK: %[[C:.*]] = arith.subf
// CHECK: %[[Y:.*]] = arith.mulf %[[C]]
// CHECK: %[[Z:.*]] = dtc.activation relu %[[Y]]
// CHECK: return %[[Z]], %[[C]] :

// CHECK-LABEL: func.func @input_grad(
// CHECK-SAME: %[[S:[^:]*]]: tensor<8x4xf32> {dtc.role = #dtc.role<parameter, "s">}
// CHECK-SAME: %[[C:[^:]*]]: tensor<8x4xf32> {dtc.role = #dtc.role<kept, "[[NAME:[^"]*]]">}) ->
// CHECK: %[[Y:.*]] = arith.mulf %[[C]], %[[S]]
// CHECK: dtc.activation_grad relu %{{.*}}, %[[Y]]

// CHECK-LABEL: func.func @weight_grad(
// CHECK-SAME: #dtc.role<kept, "[[NAME]]">
module {
  dist.mesh @mesh ["tp" = 1]
  func.func @stage(
      %x: tensor<8x4xf32> {dtc.role = #dtc.role<input, "x">},
      %w: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">},
      %m: tensor<8x4xf32> {dtc.role = #dtc.role<parameter, "m">},
      %s: tensor<8x4xf32> {dtc.role = #dtc.role<parameter, "s">},
      %dz: tensor<8x4xf32> {dtc.role = #dtc.role<inbox, "c">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<8x4xf32> {dtc.role = #dtc.role<outbox, "b">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<8x4xf32> {dtc.role = #dtc.role<outbox, "d">, dtc.runs = #dtc.runs<microbatch, input_grad>},
          tensor<8x4xf32> {dtc.role = #dtc.role<gradient, "s">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %p = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] {dtc.id = 0 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %c = arith.subf %p, %m {dtc.id = 1 : i64} : tensor<8x4xf32>
    %y = arith.mulf %c, %s {dtc.id = 2 : i64} : tensor<8x4xf32>
    %z = dtc.activation relu %y {dtc.id = 3 : i64} : tensor<8x4xf32>
    %dy = dtc.activation_grad relu %dz, %y {dtc.backward = #dtc.backward<3, input_grad>} : tensor<8x4xf32>
    %dc = arith.mulf %dy, %s {dtc.backward = #dtc.backward<2, input_grad>} : tensor<8x4xf32>
    %dx = dtc.contract %dc [0, 2], %w [1, 2] -> [0, 1] {dtc.backward = #dtc.backward<0, input_grad>} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %ds = arith.mulf %dy, %c {dtc.backward = #dtc.backward<2, weight_grad>} : tensor<8x4xf32>
    return %z, %dx, %ds : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
  }
}
