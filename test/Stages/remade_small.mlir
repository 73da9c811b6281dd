// RUN: dtc-opt %s --dtc-split-passes | FileCheck %s

// A clamp's gradient reads y = x + shift. A slot has x anyway, but the shift is there in the forward pass
// alone, as a parameter that is gathered for it. It is a quarter of y: it is kept, and y is made again.
// CHECK-LABEL: func.func @forward(
// CHECK: %[[SHIFT:.*]] = dtc.contract %{{.*}} -> tensor<4xf32>
// CHECK: %[[X:.*]] = dtc.contract %{{.*}} -> tensor<4x4xf32>
// CHECK: %[[Z:.*]] = dtc.activation
// CHECK: return %[[Z]], %[[X]], %[[SHIFT]] :

// CHECK-LABEL: func.func @backward(
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x4xf32> {dtc.role = #dtc.role<kept,
// CHECK-SAME: %[[SHIFT:[^:]*]]: tensor<4xf32> {dtc.role = #dtc.role<kept,
// CHECK: %[[ROWS:.*]] = dtc.broadcast %[[SHIFT]]
// CHECK: %[[Y:.*]] = arith.addf %[[X]], %[[ROWS]]
// CHECK: dtc.activation_grad relu %{{.*}}, %[[Y]]

// Of a shift that is half as large, y is kept.
// CHECK-LABEL: func.func @forward_1(
// CHECK: %[[Y:.*]] = arith.addf
// CHECK: %[[Z:.*]] = dtc.activation
// CHECK: return %[[Z]], %[[Y]], %{{.*}} :
module {
  dist.mesh @mesh ["tp" = 1]
  func.func @stage(
      %b: tensor<4x4xf32> {dtc.role = #dtc.role<input, "b">},
      %w: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">},
      %part: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "part">},
      %dz: tensor<4x4xf32> {dtc.role = #dtc.role<inbox, "c">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<4x4xf32> {dtc.role = #dtc.role<outbox, "z">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<4x4xf32> {dtc.role = #dtc.role<outbox, "d">, dtc.runs = #dtc.runs<microbatch, input_grad>},
          tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "s">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %ones = arith.constant dense<1.0> : tensor<4xf32>
    %shift = dtc.contract %part [0, 1], %ones [1] -> [0] {dtc.id = 0 : i64} : tensor<4x4xf32>, tensor<4xf32> -> tensor<4xf32>
    %x = dtc.contract %b [0, 2], %w [2, 1] -> [0, 1] {dtc.id = 1 : i64} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %rows = dtc.broadcast %shift [1] {dtc.id = 2 : i64} : tensor<4xf32> -> tensor<4x4xf32>
    %y = arith.addf %x, %rows {dtc.id = 3 : i64} : tensor<4x4xf32>
    %z = dtc.activation relu %y {dtc.id = 4 : i64} : tensor<4x4xf32>
    %dy = dtc.activation_grad relu %dz, %y {dtc.backward = #dtc.backward<4, input_grad>} : tensor<4x4xf32>
    %db = dtc.contract %dy [0, 2], %w [1, 2] -> [0, 1] {dtc.backward = #dtc.backward<1, input_grad>} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %ds = arith.mulf %dy, %x {dtc.backward = #dtc.backward<3, weight_grad>} : tensor<4x4xf32>
    return %z, %db, %ds : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
  func.func @stage_1(
      %b: tensor<2x4xf32> {dtc.role = #dtc.role<input, "b_1">},
      %w: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w_1">},
      %part: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "part_1">},
      %dz: tensor<2x4xf32> {dtc.role = #dtc.role<inbox, "c_1">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<2x4xf32> {dtc.role = #dtc.role<outbox, "z_1">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<2x4xf32> {dtc.role = #dtc.role<outbox, "d_1">, dtc.runs = #dtc.runs<microbatch, input_grad>},
          tensor<2x4xf32> {dtc.role = #dtc.role<gradient, "s_1">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward, chunk 1>} {
    %ones = arith.constant dense<1.0> : tensor<4xf32>
    %shift = dtc.contract %part [0, 1], %ones [1] -> [0] {dtc.id = 0 : i64} : tensor<4x4xf32>, tensor<4xf32> -> tensor<4xf32>
    %x = dtc.contract %b [0, 2], %w [2, 1] -> [0, 1] {dtc.id = 1 : i64} : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    %rows = dtc.broadcast %shift [1] {dtc.id = 2 : i64} : tensor<4xf32> -> tensor<2x4xf32>
    %y = arith.addf %x, %rows {dtc.id = 3 : i64} : tensor<2x4xf32>
    %z = dtc.activation relu %y {dtc.id = 4 : i64} : tensor<2x4xf32>
    %dy = dtc.activation_grad relu %dz, %y {dtc.backward = #dtc.backward<4, input_grad>} : tensor<2x4xf32>
    %db = dtc.contract %dy [0, 2], %w [1, 2] -> [0, 1] {dtc.backward = #dtc.backward<1, input_grad>} : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    %ds = arith.mulf %dy, %x {dtc.backward = #dtc.backward<3, weight_grad>} : tensor<2x4xf32>
    return %z, %db, %ds : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
  }
}
