// Samples in the way of a sequence that is split: a rank's rows aren't a part of all rows.
// RUN: not dtc-opt "--dtc-plan=devices=2 plan=cp=2,micro_batch=4" %s 2>&1 | FileCheck %s

// CHECK: error: no plan for 2 devices: no legal sharding of dtc.reshape ({{.*}}) for cp=2; with micro_batch=1 there is one
module {
  func.func @forward(%table: tensor<16x8xf32> {dtc.role = #dtc.role<parameter, "table">},
                     %ids: tensor<4x8xi64> {dtc.role = #dtc.role<input, "ids">})
      -> (tensor<32x2x4xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.gather %table, %ids axis 0 : tensor<16x8xf32>, tensor<4x8xi64> -> tensor<4x8x8xf32>
    %1 = dtc.reshape %0 : tensor<4x8x8xf32> -> tensor<32x2x4xf32>
    return %1 : tensor<32x2x4xf32>
  }
}
