// RUN: dtc-opt %s --dtc-split-passes | FileCheck %s

// A clamp's gradient reads y, one op's arithmetic on x, which is kept, and on a buffer. The forward pass has
// replaced the buffer of the first stage: there y is kept. In the second one the buffer stays, and y is made again.
// CHECK-LABEL: func.func @forward(
// CHECK: %[[Y:.*]] = arith.maximumf
// CHECK: %[[Z:.*]] = dtc.activation
// CHECK: return %[[Z]], %{{.*}}, %[[Y]], %{{.*}} :

// CHECK-LABEL: func.func @backward(
// CHECK-NOT: buffer
// CHECK-NOT: arith.maximumf
// CHECK: dtc.activation_grad relu

// CHECK-LABEL: func.func @backward_1(
// CHECK: %[[Y:.*]] = arith.maximumf
// CHECK: dtc.activation_grad relu %{{.*}}, %[[Y]]
module {
  dist.mesh @mesh ["tp" = 1]
  func.func @stage(
      %b: tensor<4x4xf32> {dtc.role = #dtc.role<input, "b">},
      %w: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">},
      %m: tensor<4x4xf32> {dtc.role = #dtc.role<buffer, "m">},
      %dz: tensor<4x4xf32> {dtc.role = #dtc.role<inbox, "c">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<4x4xf32> {dtc.role = #dtc.role<outbox, "z">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<4x4xf32> {dtc.role = #dtc.role<outbox, "d">, dtc.runs = #dtc.runs<microbatch, input_grad>},
          tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "s">},
          tensor<4x4xf32> {dtc.role = #dtc.role<buffer, "m">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %x = dtc.contract %b [0, 2], %w [2, 1] -> [0, 1] {dtc.id = 0 : i64} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %y = arith.maximumf %m, %x {dtc.id = 1 : i64} : tensor<4x4xf32>
    %z = dtc.activation relu %y {dtc.id = 2 : i64} : tensor<4x4xf32>
    %m1 = arith.addf %m, %x {dtc.id = 3 : i64} : tensor<4x4xf32>
    %dy = dtc.activation_grad relu %dz, %y {dtc.backward = #dtc.backward<2, input_grad>} : tensor<4x4xf32>
    %db = dtc.contract %dy [0, 2], %w [1, 2] -> [0, 1] {dtc.backward = #dtc.backward<0, input_grad>} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %ds = arith.mulf %dy, %x {dtc.backward = #dtc.backward<1, weight_grad>} : tensor<4x4xf32>
    return %z, %db, %ds, %m1 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
  func.func @stage_1(
      %b: tensor<4x4xf32> {dtc.role = #dtc.role<input, "b_1">},
      %w: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w_1">},
      %m: tensor<4x4xf32> {dtc.role = #dtc.role<buffer, "m_1">},
      %dz: tensor<4x4xf32> {dtc.role = #dtc.role<inbox, "c_1">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<4x4xf32> {dtc.role = #dtc.role<outbox, "z_1">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<4x4xf32> {dtc.role = #dtc.role<outbox, "d_1">, dtc.runs = #dtc.runs<microbatch, input_grad>},
          tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "s_1">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward, chunk 1>} {
    %x = dtc.contract %b [0, 2], %w [2, 1] -> [0, 1] {dtc.id = 0 : i64} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %y = arith.maximumf %m, %x {dtc.id = 1 : i64} : tensor<4x4xf32>
    %z = dtc.activation relu %y {dtc.id = 2 : i64} : tensor<4x4xf32>
    %dy = dtc.activation_grad relu %dz, %y {dtc.backward = #dtc.backward<2, input_grad>} : tensor<4x4xf32>
    %db = dtc.contract %dy [0, 2], %w [1, 2] -> [0, 1] {dtc.backward = #dtc.backward<0, input_grad>} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %ds = arith.mulf %dy, %x {dtc.backward = #dtc.backward<1, weight_grad>} : tensor<4x4xf32>
    return %z, %db, %ds : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
}
