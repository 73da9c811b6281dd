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

// A small view of a replaced buffer, repeated over all rows, is no way round that.
// CHECK-LABEL: func.func @forward_2(
// CHECK: %[[Y:.*]] = arith.maximumf
// CHECK: return {{.*}}%[[Y]]

// CHECK-LABEL: func.func @backward_2(
// CHECK-NOT: buffer
// CHECK-NOT: arith.maximumf
// CHECK: dtc.activation_grad relu

// Two values are made again of the rows of a replaced buffer. The rows are kept for that.
// CHECK-LABEL: func.func @forward_3(
// CHECK-LABEL: func.func @backward_3(
// CHECK-NOT: buffer
// CHECK-NOT: dtc.broadcast
// CHECK: return
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
  func.func @stage_2(
      %b: tensor<64x64xf32> {dtc.role = #dtc.role<input, "b_2">},
      %w: tensor<64x64xf32> {dtc.role = #dtc.role<parameter, "w_2">},
      %m: tensor<1x1xf32> {dtc.role = #dtc.role<buffer, "m_2">},
      %dz: tensor<64x64xf32> {dtc.role = #dtc.role<inbox, "c_2">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<64x64xf32> {dtc.role = #dtc.role<outbox, "z_2">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<64x64xf32> {dtc.role = #dtc.role<outbox, "d_2">, dtc.runs = #dtc.runs<microbatch, input_grad>},
          tensor<64x64xf32> {dtc.role = #dtc.role<gradient, "s_2">},
          tensor<1x1xf32> {dtc.role = #dtc.role<buffer, "m_2">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward, chunk 2>} {
    %x = dtc.contract %b [0, 2], %w [2, 1] -> [0, 1] {dtc.id = 0 : i64} : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %r = dtc.reshape %m {dtc.id = 1 : i64} : tensor<1x1xf32> -> tensor<1xf32>
    %s = dtc.broadcast %r [0] {dtc.id = 2 : i64} : tensor<1xf32> -> tensor<1x64x64xf32>
    %t = dtc.reshape %s {dtc.id = 3 : i64} : tensor<1x64x64xf32> -> tensor<64x64xf32>
    %y = arith.maximumf %t, %x {dtc.id = 4 : i64} : tensor<64x64xf32>
    %z = dtc.activation relu %y {dtc.id = 5 : i64} : tensor<64x64xf32>
    %m1 = arith.addf %m, %m {dtc.id = 6 : i64} : tensor<1x1xf32>
    %dy = dtc.activation_grad relu %dz, %y {dtc.backward = #dtc.backward<5, input_grad>} : tensor<64x64xf32>
    %db = dtc.contract %dy [0, 2], %w [1, 2] -> [0, 1] {dtc.backward = #dtc.backward<0, input_grad>} : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %ds = arith.mulf %dy, %x {dtc.backward = #dtc.backward<4, weight_grad>} : tensor<64x64xf32>
    return %z, %db, %ds, %m1 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<1x1xf32>
  }
  func.func @stage_3(
      %x: tensor<64x64xf32> {dtc.role = #dtc.role<input, "x_3">},
      %m: tensor<64xf32> {dtc.role = #dtc.role<buffer, "m_3">},
      %dz: tensor<64x64xf32> {dtc.role = #dtc.role<inbox, "c_3">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<64x64xf32> {dtc.role = #dtc.role<outbox, "z_3">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<64x64xf32> {dtc.role = #dtc.role<outbox, "d_3">, dtc.runs = #dtc.runs<microbatch, input_grad>},
          tensor<64xf32> {dtc.role = #dtc.role<buffer, "m_3">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward, chunk 3>} {
    %h = dtc.contract %x [0, 2], %x [2, 1] -> [0, 1] {dtc.id = 0 : i64} : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %rows = dtc.broadcast %m [1] {dtc.id = 1 : i64} : tensor<64xf32> -> tensor<64x64xf32>
    %p = arith.subf %h, %rows {dtc.id = 2 : i64} : tensor<64x64xf32>
    %q = arith.addf %h, %rows {dtc.id = 3 : i64} : tensor<64x64xf32>
    %z = arith.mulf %p, %q {dtc.id = 4 : i64} : tensor<64x64xf32>
    %m1 = arith.addf %m, %m {dtc.id = 5 : i64} : tensor<64xf32>
    %dp = arith.mulf %dz, %q {dtc.backward = #dtc.backward<4, input_grad>} : tensor<64x64xf32>
    %dq = arith.mulf %dz, %p {dtc.backward = #dtc.backward<4, input_grad>} : tensor<64x64xf32>
    %dh = arith.mulf %dp, %h {dtc.backward = #dtc.backward<4, input_grad>} : tensor<64x64xf32>
    %dx = arith.addf %dh, %dq {dtc.backward = #dtc.backward<0, input_grad>} : tensor<64x64xf32>
    return %z, %dx, %m1 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64xf32>
  }
}
