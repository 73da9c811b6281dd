// RUN: dtc-opt %s --dtc-cut-stages --verify-roundtrip | FileCheck %s

// An output is made of a buffer alone, and so is what reads it: both belong to the first stage, which hands over what the second needs.

// CHECK: module @rank0 {
// CHECK: func.func @forward(
// CHECK-SAME: #dtc.role<buffer, "b">
// CHECK-SAME: -> (tensor<4xf32> {dtc.role = #dtc.role<output, "table">}, tensor<8x4xf32> {{{.*}}"activation 0 to stage 1">}, tensor<8x4xf32> {{{.*}}"activation 1 to stage 1">})
// CHECK: %[[TABLE:.*]] = math.tanh
// CHECK-NEXT: %[[ROWS:.*]] = dtc.broadcast %[[TABLE]] [1]
// CHECK-NEXT: %[[A:.*]] = arith.mulf %{{.*}}, %[[ROWS]]
// CHECK: return %[[TABLE]], %[[ROWS]], %[[A]] :

// CHECK: module @rank1 {
// CHECK: func.func @forward(
// CHECK-SAME: #dtc.role<inbox, "activation 0 to stage 1">
// CHECK-SAME: #dtc.role<inbox, "activation 1 to stage 1">
// CHECK-NOT: math.tanh
// CHECK-NOT: dtc.broadcast
// CHECK: return
module {
  dist.mesh @mesh ["dp" = 1] {dist.devices = [array<i64: 0>, array<i64: 1>]}
  dtc.parameter buffer @b : tensor<4xf32> file tensor<4xf32>
  func.func @forward(
      %b: tensor<4xf32> {dtc.role = #dtc.role<buffer, "b">},
      %x: tensor<8x4xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4xf32> {dtc.role = #dtc.role<output, "table">}, tensor<8x4xf32> {dtc.role = #dtc.role<output, "y">})
      attributes {dtc.runs = #dtc.runs<microbatch, forward>} {
    %t = math.tanh %b {dist.op = #dist.op_sharding<@mesh, [{}]>, dtc.id = 0 : i64} : tensor<4xf32>
    %r = dtc.broadcast %t [1] {dist.op = #dist.op_sharding<@mesh, [{}, {}]>, dtc.id = 1 : i64} : tensor<4xf32> -> tensor<8x4xf32>
    %a = arith.mulf %x, %r {dist.op = #dist.op_sharding<@mesh, [{}, {}]>, dist.stage = 0 : i64, dtc.id = 2 : i64} : tensor<8x4xf32>
    %y = arith.addf %a, %r {dist.op = #dist.op_sharding<@mesh, [{}, {}]>, dist.stage = 1 : i64, dtc.id = 3 : i64} : tensor<8x4xf32>
    return %t, %y : tensor<4xf32>, tensor<8x4xf32>
  }
}
