// RUN: dtc-opt %s --dtc-split-passes | FileCheck %s

// The backward pass reads three values that arithmetic makes of the halves of a gate. Together they take
// more than the gate, which is kept instead of them.
// CHECK-LABEL: func.func @forward(
// CHECK: %[[GATE:.*]] = dtc.contract
// CHECK: return %{{[^,]*}}, %[[GATE]] : tensor<8x4xf32>, tensor<8x8xf32>

// CHECK-LABEL: func.func @backward(
// CHECK-SAME: %[[GATE:[^:]*]]: tensor<8x8xf32> {dtc.role = #dtc.role<kept,
// CHECK-NOT: #dtc.role<kept
// CHECK-DAG: dtc.slice %[[GATE]] offsets [0, 0]
// CHECK-DAG: dtc.slice %[[GATE]] offsets [0, 4]

// Two of its halves' products take no more than the gate would. They are kept.
// CHECK-LABEL: func.func @forward_1(
// CHECK: dtc.contract
// CHECK: return {{.*}} : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
module {
  dist.mesh @mesh ["tp" = 1]
  func.func @stage(
      %x: tensor<8x4xf32> {dtc.role = #dtc.role<input, "x">},
      %w: tensor<4x8xf32> {dtc.role = #dtc.role<parameter, "w">},
      %dh: tensor<8x4xf32> {dtc.role = #dtc.role<inbox, "c">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<8x4xf32> {dtc.role = #dtc.role<outbox, "b">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<8x4xf32> {dtc.role = #dtc.role<outbox, "d">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %gate = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] {dtc.id = 0 : i64} : tensor<8x4xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
    %l = dtc.slice %gate offsets [0, 0] strides [1, 1] {dtc.id = 1 : i64} : tensor<8x8xf32> -> tensor<8x4xf32>
    %r = dtc.slice %gate offsets [0, 4] strides [1, 1] {dtc.id = 2 : i64} : tensor<8x8xf32> -> tensor<8x4xf32>
    %a = arith.mulf %l, %l {dtc.id = 3 : i64} : tensor<8x4xf32>
    %b = arith.addf %r, %l {dtc.id = 4 : i64} : tensor<8x4xf32>
    %c = arith.mulf %a, %r {dtc.id = 5 : i64} : tensor<8x4xf32>
    %h = arith.mulf %c, %b {dtc.id = 6 : i64} : tensor<8x4xf32>
    %da = arith.mulf %dh, %a {dtc.backward = #dtc.backward<6, input_grad>} : tensor<8x4xf32>
    %db = arith.mulf %da, %b {dtc.backward = #dtc.backward<5, input_grad>} : tensor<8x4xf32>
    %dx = arith.mulf %db, %c {dtc.backward = #dtc.backward<0, input_grad>} : tensor<8x4xf32>
    return %h, %dx : tensor<8x4xf32>, tensor<8x4xf32>
  }
  func.func @stage_1(
      %x: tensor<8x4xf32> {dtc.role = #dtc.role<input, "x_1">},
      %w: tensor<4x8xf32> {dtc.role = #dtc.role<parameter, "w_1">},
      %dh: tensor<8x4xf32> {dtc.role = #dtc.role<inbox, "c_1">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<8x4xf32> {dtc.role = #dtc.role<outbox, "b_1">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<8x4xf32> {dtc.role = #dtc.role<outbox, "d_1">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward, chunk 1>} {
    %gate = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] {dtc.id = 0 : i64} : tensor<8x4xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
    %l = dtc.slice %gate offsets [0, 0] strides [1, 1] {dtc.id = 1 : i64} : tensor<8x8xf32> -> tensor<8x4xf32>
    %r = dtc.slice %gate offsets [0, 4] strides [1, 1] {dtc.id = 2 : i64} : tensor<8x8xf32> -> tensor<8x4xf32>
    %a = arith.mulf %l, %l {dtc.id = 3 : i64} : tensor<8x4xf32>
    %b = arith.mulf %r, %r {dtc.id = 4 : i64} : tensor<8x4xf32>
    %h = arith.mulf %a, %b {dtc.id = 5 : i64} : tensor<8x4xf32>
    %da = arith.mulf %dh, %a {dtc.backward = #dtc.backward<5, input_grad>} : tensor<8x4xf32>
    %dx = arith.mulf %da, %b {dtc.backward = #dtc.backward<0, input_grad>} : tensor<8x4xf32>
    return %h, %dx : tensor<8x4xf32>, tensor<8x4xf32>
  }
}
