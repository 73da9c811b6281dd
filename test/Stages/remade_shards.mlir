// RUN: dtc-opt %s --dtc-split-passes | FileCheck %s

// A rank's part of a table that is made of a buffer alone is made again, too. No slot keeps it.
// CHECK-LABEL: func.func @forward(
// CHECK: return %{{[^,]*}} : tensor<2x8xf32>

// CHECK-LABEL: func.func @backward(
// CHECK-NOT: #dtc.role<kept
// CHECK: %[[COSINES:.*]] = math.cos
// CHECK: %[[ROWS:.*]] = dtc.broadcast %[[COSINES]]
// CHECK: %[[PART:.*]] = dist.slice %[[ROWS]]
// CHECK: arith.mulf %{{.*}}, %[[PART]]
module {
  dist.mesh @mesh ["tp" = 2]
  func.func @stage(
      %x: tensor<2x8xf32> {dtc.role = #dtc.role<inbox, "a">, dtc.runs = #dtc.runs<microbatch, forward>},
      %angles: tensor<8xf32> {dtc.role = #dtc.role<buffer, "angles">},
      %dz: tensor<2x8xf32> {dtc.role = #dtc.role<inbox, "c">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      -> (tensor<2x8xf32> {dtc.role = #dtc.role<outbox, "b">, dtc.runs = #dtc.runs<microbatch, forward>},
          tensor<2x8xf32> {dtc.role = #dtc.role<outbox, "d">, dtc.runs = #dtc.runs<microbatch, input_grad>})
      attributes {dist.local, dtc.runs = #dtc.runs<microbatch, forward|backward>} {
    %c = math.cos %angles {dtc.id = 0 : i64} : tensor<8xf32>
    %rows = dtc.broadcast %c [1] {dtc.id = 1 : i64} : tensor<8xf32> -> tensor<4x8xf32>
    %part = dist.slice %rows dim 0 on @mesh {"tp"} : tensor<4x8xf32> -> tensor<2x8xf32>
    %z = arith.mulf %x, %part {dtc.id = 2 : i64} : tensor<2x8xf32>
    %dx = arith.mulf %dz, %part {dtc.backward = #dtc.backward<2, input_grad>} : tensor<2x8xf32>
    return %z, %dx : tensor<2x8xf32>, tensor<2x8xf32>
  }
}
