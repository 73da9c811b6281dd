// RUN: dtc-opt %s --dtc-split-passes | FileCheck %s

// A table that is made of a buffer alone, as rotary embeddings' cosines, is made again rather than
// kept for each microbatch. One of a buffer that the step replaces is kept: the backward pass would
// find another value there.
// CHECK-LABEL: func.func @forward(
// CHECK: %[[SINES:.*]] = math.sin
// CHECK: %[[OTHER:.*]] = dtc.concat 0(%[[SINES]], %[[SINES]])
// CHECK: return %{{[^,]*}}, %{{[^,]*}}, %[[OTHER]] :

// CHECK-LABEL: func.func @backward(
// CHECK-SAME: %[[ANGLES:[^:]*]]: tensor<4xf32> {dtc.role = #dtc.role<buffer, "angles">}
// CHECK-SAME: %[[KEPT:[^:]*]]: tensor<8xf32> {dtc.role = #dtc.role<kept,
// CHECK: %[[COSINES:.*]] = math.cos %[[ANGLES]]
// CHECK: %[[BOTH:.*]] = dtc.concat 0(%[[COSINES]], %[[COSINES]])
// CHECK-NOT: math.sin
// CHECK: dtc.broadcast %[[BOTH]]
module {
  dist.mesh @mesh ["tp" = 1]
  func.func @stage(
      %x: tensor<2x8xf32> {dtc.role = #dtc.role<inbox, "a">, dtc.runs = #dtc.runs<microbatch, forward>},
      %angles: tensor<4xf32> {dtc.role = #dtc.role<buffer, "angles">},
      %statistic: tensor<4xf32> {dtc.role = #dtc.role<buffer, "statistic">},
      %dz: tensor<2x8xf32> {dtc.role = #dtc.role<inbox, "c">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<2x8xf32> {dtc.role = #dtc.role<outbox, "b">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<2x8xf32> {dtc.role = #dtc.role<outbox, "d">, dtc.runs = #dtc.runs<microbatch, input_grad>},
          tensor<4xf32> {dtc.role = #dtc.role<buffer, "statistic">})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %c = math.cos %angles {dtc.id = 0 : i64} : tensor<4xf32>
    %both = dtc.concat 0(%c, %c) {dtc.id = 1 : i64} : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
    %b = dtc.broadcast %both [1] {dtc.id = 2 : i64} : tensor<8xf32> -> tensor<2x8xf32>
    %y = arith.mulf %x, %b {dtc.id = 3 : i64} : tensor<2x8xf32>
    %s = math.sin %statistic {dtc.id = 4 : i64} : tensor<4xf32>
    %sboth = dtc.concat 0(%s, %s) {dtc.id = 5 : i64} : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
    %sb = dtc.broadcast %sboth [1] {dtc.id = 6 : i64} : tensor<8xf32> -> tensor<2x8xf32>
    %z = arith.mulf %y, %sb {dtc.id = 7 : i64} : tensor<2x8xf32>
    %new = arith.addf %statistic, %statistic {dtc.id = 8 : i64} : tensor<4xf32>
    %dy = arith.mulf %dz, %sb {dtc.backward = #dtc.backward<7, input_grad>} : tensor<2x8xf32>
    %dx = arith.mulf %dy, %b {dtc.backward = #dtc.backward<3, input_grad>} : tensor<2x8xf32>
    return %z, %dx, %new : tensor<2x8xf32>, tensor<2x8xf32>, tensor<4xf32>
  }
}
