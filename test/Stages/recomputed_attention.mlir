// RUN: dtc-opt %s --dtc-split-passes=split-backward | FileCheck %s

// Attention is computed again for a product's gradient of weights alone, and taken apart for its
// own backward pass. All of it runs with gradients of data: what waits for gradients of weights is
// its result, rather than the scores of which that is made.
// CHECK-LABEL: func.func @input_grad(
// CHECK: return {{.*}} : tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x16xf32>

// CHECK-LABEL: func.func @weight_grad(
// CHECK-NEXT: dtc.contract
// CHECK-NEXT: return
module {
  dist.mesh @mesh ["tp" = 1]
  func.func @stage(
      %q: tensor<1x4x2x8xf32> {dtc.role = #dtc.role<inbox, "a">, dtc.runs = #dtc.runs<microbatch, forward>},
      %w: tensor<2x8x16xf32> {dtc.role = #dtc.role<parameter, "w">},
      %dz: tensor<1x4x16xf32> {dtc.role = #dtc.role<inbox, "c">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<1x4x16xf32> {dtc.role = #dtc.role<outbox, "b">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<1x4x2x8xf32> {dtc.role = #dtc.role<outbox, "d">, dtc.runs = #dtc.runs<microbatch, input_grad>},
          tensor<2x8x16xf32> {dtc.role = #dtc.role<gradient, "w">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %o, %lse = dtc.attention %q, %q, %q scale 0.5 {dtc.id = 0 : i64} : tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32> -> tensor<1x4x2x8xf32>, tensor<1x2x4xf32>
    %z = dtc.contract %o [0, 1, 3, 4], %w [3, 4, 2] -> [0, 1, 2] {dtc.id = 1 : i64} : tensor<1x4x2x8xf32>, tensor<2x8x16xf32> -> tensor<1x4x16xf32>
    %again = dtc.barrier %q {dtc.backward = #dtc.backward<0, recompute>} : tensor<1x4x2x8xf32>
    %o2, %lse2 = dtc.attention %again, %again, %again scale 0.5 {dtc.backward = #dtc.backward<0, recompute>} : tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32> -> tensor<1x4x2x8xf32>, tensor<1x2x4xf32>
    %do = dtc.contract %dz [0, 1, 2], %w [3, 4, 2] -> [0, 1, 3, 4] {dtc.backward = #dtc.backward<1, input_grad>} : tensor<1x4x16xf32>, tensor<2x8x16xf32> -> tensor<1x4x2x8xf32>
    %dw = dtc.contract %o2 [0, 1, 3, 4], %dz [0, 1, 2] -> [3, 4, 2] {dtc.backward = #dtc.backward<1, weight_grad>} : tensor<1x4x2x8xf32>, tensor<1x4x16xf32> -> tensor<2x8x16xf32>
    %dq, %dk, %dv = dtc.attention_grad %again, %again, %again, %o2, %lse2, %do scale 0.5 {dtc.backward = #dtc.backward<0, input_grad>} : tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x2x4xf32>, tensor<1x4x2x8xf32> -> tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>
    %d = dtc.sum %dq, %dk, %dv {dtc.backward = #dtc.backward<0, input_grad>} : tensor<1x4x2x8xf32>
    return %z, %d, %dw : tensor<1x4x16xf32>, tensor<1x4x2x8xf32>, tensor<2x8x16xf32>
  }
}
