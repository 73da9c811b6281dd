// RUN: dtc-opt %s --dtc-cut-stages --verify-roundtrip | FileCheck %s

// A forward pass in two stages: each returns the outputs that it makes, and nothing comes back. What
// is made of buffers alone, and what is returned as it came, are outputs of the first stage.

// CHECK-NOT: func.func @forward({{.*}}%{{.*}}: tensor<4x4xf32> {{.*}}"w1"
// CHECK: module @rank0 {
// CHECK: dtc.parameter trainable @w0
// CHECK-NOT: dtc.parameter
// CHECK: func.func @forward(
// CHECK-SAME: #dtc.role<input, "x">
// CHECK-SAME: #dtc.role<input, "id">
// CHECK-SAME: -> (tensor<8x4xf32> {dtc.role = #dtc.role<output, "early">}, tensor<4xf32> {dtc.role = #dtc.role<output, "table">}, tensor<8xf32> {dtc.role = #dtc.role<output, "same">}, tensor<8x4xf32> {dist.sharding = #dist.sharding<@mesh, [{"dp"}, {}]>, dtc.role = #dtc.role<outbox, "activation 0 to stage 1">})
// CHECK-SAME: attributes {dtc.runs = #dtc.runs<microbatch, forward>}
// CHECK: %[[A:.*]] = math.tanh
// CHECK: return %[[A]], %{{.*}}, %{{.*}}, %[[A]] :

// CHECK: module @rank1 {
// CHECK: dtc.parameter trainable @w1
// CHECK-NOT: dtc.parameter
// CHECK: func.func @forward(
// CHECK-SAME: #dtc.role<inbox, "activation 0 to stage 1">
// CHECK-SAME: -> (tensor<8x4xf32> {dtc.role = #dtc.role<output, "y">})
// CHECK-NOT: func.func
module {
  dist.mesh @mesh ["dp" = 2] {dist.devices = [array<i64: 0, 1>, array<i64: 2, 3>]}
  dtc.parameter trainable @w0 : tensor<4x4xf32> file tensor<4x4xf32>
  dtc.parameter trainable @w1 : tensor<4x4xf32> file tensor<4x4xf32>
  func.func @forward(
      %w0: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w0">},
      %w1: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w1">},
      %x: tensor<8x4xf32> {dtc.role = #dtc.role<input, "x">},
      %id: tensor<8xf32> {dtc.role = #dtc.role<input, "id">})
      -> (tensor<8x4xf32> {dtc.role = #dtc.role<output, "early">}, tensor<4xf32> {dtc.role = #dtc.role<output, "table">},
          tensor<8xf32> {dtc.role = #dtc.role<output, "same">}, tensor<8x4xf32> {dtc.role = #dtc.role<output, "y">})
      attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    %h = dtc.contract %x [0, 2], %w0 [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}, {}]>, dist.stage = 0 : i64, dtc.id = 0 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %a = math.tanh %h {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}]>, dist.stage = 0 : i64, dtc.id = 1 : i64} : tensor<8x4xf32>
    %t = arith.constant {dtc.id = 2 : i64} dense<2.0> : tensor<4xf32>
    %y = dtc.contract %a [0, 2], %w1 [2, 1] -> [0, 1] {dist.op = #dist.op_sharding<@mesh, [{"dp"}, {}, {}]>, dist.stage = 1 : i64, dtc.id = 3 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    return %a, %t, %id, %y : tensor<8x4xf32>, tensor<4xf32>, tensor<8xf32>, tensor<8x4xf32>
  }
}
