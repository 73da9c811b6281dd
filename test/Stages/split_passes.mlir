// RUN: dtc-opt %s --dtc-split-passes --verify-roundtrip | FileCheck %s --check-prefix=JOINED
// RUN: dtc-opt %s --dtc-split-passes=split-backward --verify-roundtrip | FileCheck %s --check-prefix=SPLIT

// A partitioned stage. What a later pass reads is kept, but for arguments that stay, and for what is
// cheaper to make again. An op that nobody marked belongs to those that need it.

// JOINED-LABEL: func.func @forward_1(
// JOINED-SAME: %[[X:[^:]*]]: tensor<8x4xf32> {dtc.role = #dtc.role<inbox, "a">}
// JOINED-SAME: %[[W:[^:]*]]: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">}
// JOINED-SAME: -> (tensor<8x4xf32> {dtc.role = #dtc.role<outbox, "b">}, tensor<8x4xf32> {dtc.role = #dtc.role<kept, "kept 0 of chunk 1">}, tensor<8x4xf32> {dtc.role = #dtc.role<kept, "kept 1 of chunk 1">})
// JOINED-SAME: dtc.runs = #dtc.runs<microbatch, forward, chunk 1>
// JOINED-NEXT: %[[Y:.*]] = dtc.contract %[[X]]
// JOINED-NEXT: %[[Z:.*]] = math.tanh %[[Y]]
// JOINED-NEXT: return %[[Z]], %[[X]], %[[Z]]

// JOINED-LABEL: func.func @backward_1(
// JOINED-SAME: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">}
// JOINED-SAME: %[[DZ:[^:]*]]: tensor<8x4xf32> {dtc.role = #dtc.role<inbox, "c">}
// JOINED-SAME: tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w">}
// JOINED-SAME: #dtc.role<kept, "kept 0 of chunk 1">
// JOINED-SAME: #dtc.role<kept, "kept 1 of chunk 1">
// JOINED-SAME: dtc.runs = #dtc.runs<microbatch, backward, chunk 1>
// JOINED: arith.constant
// JOINED: dist.all_gather
// JOINED: return

// SPLIT-LABEL: func.func @forward_1(
// SPLIT-LABEL: func.func @input_grad_1(
// SPLIT-SAME: -> (tensor<8x4xf32> {dtc.role = #dtc.role<outbox, "d">}, tensor<8x4xf32> {dtc.role = #dtc.role<kept, "kept 2 of chunk 1">})
// SPLIT-SAME: dtc.runs = #dtc.runs<microbatch, input_grad, chunk 1>
// SPLIT-NOT: dtc.sum
// SPLIT-LABEL: func.func @weight_grad_1(
// SPLIT-SAME: #dtc.role<gradient, "w">
// SPLIT-SAME: #dtc.role<kept, "kept 1 of chunk 1">
// SPLIT-SAME: #dtc.role<kept, "kept 2 of chunk 1">
// SPLIT: dist.all_gather
// SPLIT: dtc.sum
module {
  dist.mesh @mesh ["tp" = 2]
  func.func @stage_1(
      %x: tensor<8x4xf32> {dtc.role = #dtc.role<inbox, "a">, dtc.runs = #dtc.runs<microbatch, forward>},
      %w: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">},
      %dz: tensor<8x4xf32> {dtc.role = #dtc.role<inbox, "c">, dtc.runs = #dtc.runs<microbatch, input_grad>},
      %g: tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w">})
      -> (tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w">},
          tensor<8x4xf32> {dtc.role = #dtc.role<outbox, "b">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<8x4xf32> {dtc.role = #dtc.role<outbox, "d">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward, chunk 1>} {
    %y = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] {dtc.id = 0 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %z = math.tanh %y {dtc.id = 1 : i64} : tensor<8x4xf32>
    %two = arith.constant dense<2.0> : tensor<8x4xf32>
    %t = dist.all_gather %x dim 0 on @mesh {"tp"} : tensor<8x4xf32> -> tensor<16x4xf32>
    %u = arith.mulf %dz, %z {dtc.backward = #dtc.backward<1, input_grad>} : tensor<8x4xf32>
    %dy = arith.mulf %u, %two {dtc.backward = #dtc.backward<1, input_grad>} : tensor<8x4xf32>
    %r = dist.all_gather %dy dim 0 on @mesh {"tp"} : tensor<8x4xf32> -> tensor<16x4xf32>
    %dw = dtc.contract %t [2, 0], %r [2, 1] -> [0, 1] {dtc.backward = #dtc.backward<0, weight_grad>} : tensor<16x4xf32>, tensor<16x4xf32> -> tensor<4x4xf32>
    %dx = dtc.contract %dy [0, 2], %w [1, 2] -> [0, 1] {dtc.backward = #dtc.backward<0, input_grad>} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %sum = dtc.sum %g, %dw : tensor<4x4xf32>
    return %sum, %z, %dx : tensor<4x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
  }
}
