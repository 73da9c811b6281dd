// Rows that look up their experts' weights have adapters as experts with rows of their own do. Files have experts in
// one dimension, also where ranks have parts of them.
// RUN: dtc-opt --dtc-train="optimizer=sgd loss=mse adapter-rank=2" %s | FileCheck %s

// CHECK-DAG: dtc.parameter trainable @w.lora_A.weight : tensor<4x2x6xf32> file tensor<4x2x6xf32>
// CHECK-DAG: dtc.parameter trainable @w.lora_B.weight : tensor<4x10x2xf32> file tensor<4x10x2xf32> {dtc.adapter = #dtc.adapter<base = @w, {{.*}}layout = out_in>}
// CHECK-DAG: dtc.parameter trainable @v.lora_A.weight : tensor<2x2x2x10xf32> file tensor<4x2x10xf32>
// CHECK-DAG: dtc.parameter trainable @v.lora_B.weight : tensor<2x2x6x2xf32> file tensor<4x6x2xf32>
dtc.parameter trainable @w : tensor<4x10x6xf32> file tensor<4x10x6xf32>
dtc.parameter trainable @v : tensor<2x2x6x10xf32> file tensor<4x6x10xf32>

// CHECK-LABEL: func.func @loss_and_grads(
// CHECK: %[[Y:.*]] = dtc.grouped_contract %[[X:.*]] [0, 1, 4], %{{.*}} [2, 3, 4] -> [0, 1, 3] by %[[I:.*]] [0, 1] of 2
// CHECK: %[[L:.*]] = dtc.grouped_contract %[[X]] [0, 1, 3], %{{.*}} [4, 2, 3] -> [0, 1, 2] by %[[I]] [0, 1] of 4 {{.*}} -> tensor<2x8x2xf32>
// CHECK: %[[D:.*]] = dtc.grouped_contract %[[L]] [0, 1, 3], %{{.*}} [4, 2, 3] -> [0, 1, 2] by %[[I]] [0, 1] of 4 {{.*}} -> tensor<2x8x10xf32>
// CHECK: arith.addf %[[Y]], %[[D]]
func.func @forward(
    %x: tensor<2x8x6xf32> {dtc.role = #dtc.role<input, "x">},
    %i: tensor<2x8xi64> {dtc.role = #dtc.role<input, "i">},
    %w: tensor<4x10x6xf32> {dtc.role = #dtc.role<parameter, "w">},
    %v: tensor<2x2x6x10xf32> {dtc.role = #dtc.role<parameter, "v">})
    -> (tensor<2x2x4x6xf32> {dtc.role = #dtc.role<output, "y">}) {
  %0 = dtc.grouped_contract %x [0, 1, 4], %w [2, 3, 4] -> [0, 1, 3] by %i [0, 1] of 2 : tensor<2x8x6xf32>, tensor<4x10x6xf32>, tensor<2x8xi64> -> tensor<2x8x10xf32>
  %1 = dtc.reshape %0 : tensor<2x8x10xf32> -> tensor<2x2x4x10xf32>
  %2 = dtc.contract %1 [0, 1, 2, 4], %v [0, 1, 3, 4] -> [0, 1, 2, 3] : tensor<2x2x4x10xf32>, tensor<2x2x6x10xf32> -> tensor<2x2x4x6xf32>
  return %2 : tensor<2x2x4x6xf32>
}
