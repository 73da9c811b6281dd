// RUN: dtc-opt %s --dtc-split-passes=split-backward | FileCheck %s

// Two layers that are computed again read the same x behind barriers of their own. Gradients of weights find
// x where it lies: what is behind a barrier isn't kept once more. They gather the parts of y, too, as no
// gradient of data needs the whole.
// CHECK-LABEL: func.func @input_grad(
// CHECK-NOT: dtc.barrier
// CHECK-NOT: dist.all_gather
// CHECK: return

// CHECK-LABEL: func.func @weight_grad(
// CHECK-SAME: %[[X:[^:]*]]: tensor<8x4xf32> {dtc.role = #dtc.role<kept,
// CHECK-SAME: tensor<8x4xf32> {dtc.role = #dtc.role<kept,
// CHECK-SAME: %[[Y:[^:]*]]: tensor<4x4xf32> {dtc.role = #dtc.role<kept,
// CHECK-NOT: #dtc.role<kept
// CHECK: dtc.barrier %[[X]]
// CHECK: dtc.barrier %[[X]]
// CHECK: %[[PART:.*]] = dtc.barrier %[[Y]]
// CHECK: dist.all_gather %[[PART]]
module {
  dist.mesh @mesh ["tp" = 2]
  func.func @stage(
      %x: tensor<8x4xf32> {dtc.role = #dtc.role<inbox, "a">, dtc.runs = #dtc.runs<microbatch, forward>},
      %y: tensor<4x4xf32> {dtc.role = #dtc.role<inbox, "y">, dtc.runs = #dtc.runs<microbatch, forward>},
      %w: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">},
      %v: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "v">},
      %dz: tensor<8x4xf32> {dtc.role = #dtc.role<inbox, "c">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<8x4xf32> {dtc.role = #dtc.role<outbox, "b">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<8x4xf32> {dtc.role = #dtc.role<outbox, "d">, dtc.runs = #dtc.runs<microbatch, input_grad>},
          tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "w">},
          tensor<4x4xf32> {dtc.role = #dtc.role<gradient, "v">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %a = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] {dtc.id = 0 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %b = dtc.contract %x [0, 2], %v [2, 1] -> [0, 1] {dtc.id = 1 : i64} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %whole = dist.all_gather %y dim 0 on @mesh {"tp"} : tensor<4x4xf32> -> tensor<8x4xf32>
    %c = arith.addf %a, %b {dtc.id = 2 : i64} : tensor<8x4xf32>
    %z = arith.addf %c, %whole {dtc.id = 3 : i64} : tensor<8x4xf32>
    %da = dtc.contract %dz [0, 2], %w [1, 2] -> [0, 1] {dtc.backward = #dtc.backward<0, input_grad>} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %x1 = dtc.barrier %x {dtc.backward = #dtc.backward<0, recompute>} : tensor<8x4xf32>
    %dw = dtc.contract %x1 [2, 0], %dz [2, 1] -> [0, 1] {dtc.backward = #dtc.backward<0, weight_grad>} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
    %x2 = dtc.barrier %x {dtc.backward = #dtc.backward<1, recompute>} : tensor<8x4xf32>
    %y2 = dtc.barrier %y {dtc.backward = #dtc.backward<1, recompute>} : tensor<4x4xf32>
    %whole2 = dist.all_gather %y2 dim 0 on @mesh {"tp"} : tensor<4x4xf32> -> tensor<8x4xf32>
    %both = arith.mulf %x2, %whole2 {dtc.backward = #dtc.backward<1, weight_grad>} : tensor<8x4xf32>
    %dv = dtc.contract %both [2, 0], %dz [2, 1] -> [0, 1] {dtc.backward = #dtc.backward<1, weight_grad>} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
    return %z, %da, %dw, %dv : tensor<8x4xf32>, tensor<8x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
}
