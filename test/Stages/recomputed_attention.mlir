// RUN: dtc-opt %s --dtc-split-passes=split-backward -split-input-file | FileCheck %s

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

// -----

// So it is where partitioning took attention apart, as of a rank's part of the queries: its parts are made of
// what is computed again, and of no gradient.
// CHECK-LABEL: func.func @input_grad(
// CHECK: %[[P:.*]] = dtc.softmax
// CHECK: %[[O:.*]] = dtc.contract %[[P]]
// CHECK: return %{{[^,]*}}, %[[O]], %{{[^,]*}} : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>

// CHECK-LABEL: func.func @weight_grad(
// CHECK-NEXT: dtc.contract
// CHECK-NEXT: return
module {
  dist.mesh @mesh ["tp" = 1]
  func.func @stage(
      %q: tensor<4x8xf32> {dtc.role = #dtc.role<inbox, "a">, dtc.runs = #dtc.runs<microbatch, forward>},
      %w: tensor<8x16xf32> {dtc.role = #dtc.role<parameter, "w">},
      %dz: tensor<4x16xf32> {dtc.role = #dtc.role<inbox, "c">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<4x16xf32> {dtc.role = #dtc.role<outbox, "b">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<4x8xf32> {dtc.role = #dtc.role<outbox, "d">, dtc.runs = #dtc.runs<microbatch, input_grad>},
          tensor<8x16xf32> {dtc.role = #dtc.role<gradient, "w">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %s = dtc.contract %q [0, 2], %q [1, 2] -> [0, 1] {dtc.id = 0 : i64} : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
    %p = dtc.softmax %s 1 {dtc.id = 0 : i64} : tensor<4x4xf32>
    %o = dtc.contract %p [0, 2], %q [2, 1] -> [0, 1] {dtc.id = 0 : i64} : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
    %z = dtc.contract %o [0, 2], %w [2, 1] -> [0, 1] {dtc.id = 1 : i64} : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
    %again = dtc.barrier %q {dtc.backward = #dtc.backward<0, recompute>} : tensor<4x8xf32>
    %s2 = dtc.contract %again [0, 2], %again [1, 2] -> [0, 1] : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
    %p2 = dtc.softmax %s2 1 : tensor<4x4xf32>
    %o2 = dtc.contract %p2 [0, 2], %again [2, 1] -> [0, 1] : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
    %do = dtc.contract %dz [0, 2], %w [1, 2] -> [0, 1] {dtc.backward = #dtc.backward<1, input_grad>} : tensor<4x16xf32>, tensor<8x16xf32> -> tensor<4x8xf32>
    %dw = dtc.contract %o2 [2, 0], %dz [2, 1] -> [0, 1] {dtc.backward = #dtc.backward<1, weight_grad>} : tensor<4x8xf32>, tensor<4x16xf32> -> tensor<8x16xf32>
    %dp = dtc.contract %do [0, 2], %again [1, 2] -> [0, 1] {dtc.backward = #dtc.backward<0, input_grad>} : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
    %ds = dtc.softmax_grad %p2, %dp 1 {dtc.backward = #dtc.backward<0, input_grad>} : tensor<4x4xf32>
    %dq = dtc.contract %ds [0, 2], %again [2, 1] -> [0, 1] {dtc.backward = #dtc.backward<0, input_grad>} : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
    return %z, %dq, %dw : tensor<4x16xf32>, tensor<4x8xf32>, tensor<8x16xf32>
  }
}
