// A parameter that a norm reads as its input, as DeBERTa's table of relative positions. The norm's
// gradient of its input has the input's type, so the accumulator's is extended.
// RUN: dtc-opt -split-input-file --dtc-train="loss=mse precision=bf16 optimizer=sgd" %s | FileCheck %s

// CHECK-LABEL: func.func @loss_and_grads(
// CHECK: %[[GRAD:[^,]*]], %[[SCALE:[^,]*]], %{{.*}} = dtc.layer_norm_grad {{.*}} -> tensor<4x8xbf16>, tensor<8xf32>
// CHECK: %[[WIDE:.*]] = arith.extf %[[GRAD]] {{.*}}: tensor<4x8xbf16> to tensor<4x8xf32>
// CHECK: return {{.*}}%[[WIDE]]
module {
  dtc.parameter trainable @table : tensor<4x8xf32> file tensor<4x8xf32>
  dtc.parameter trainable @g : tensor<8xf32> file tensor<8xf32>
  func.func @forward(%t: tensor<4x8xf32> {dtc.role = #dtc.role<parameter, "table">},
                     %g: tensor<8xf32> {dtc.role = #dtc.role<parameter, "g">},
                     %x: tensor<4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0, %1, %2 = dtc.layer_norm %t scale %g : tensor<8xf32> eps 1.0e-5 : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>
    %3 = arith.addf %0, %x : tensor<4x8xf32>
    return %3 : tensor<4x8xf32>
  }
}

// -----

// CHECK-LABEL: func.func @loss_and_grads(
// CHECK: %[[GRAD:[^,]*]], %{{.*}} = dtc.rms_norm_grad {{.*}} -> tensor<4x8xbf16>, tensor<8xf32>
// CHECK: %[[WIDE:.*]] = arith.extf %[[GRAD]] {{.*}}: tensor<4x8xbf16> to tensor<4x8xf32>
// CHECK: return {{.*}}%[[WIDE]]
module {
  dtc.parameter trainable @table : tensor<4x8xf32> file tensor<4x8xf32>
  dtc.parameter trainable @g : tensor<8xf32> file tensor<8xf32>
  func.func @forward(%t: tensor<4x8xf32> {dtc.role = #dtc.role<parameter, "table">},
                     %g: tensor<8xf32> {dtc.role = #dtc.role<parameter, "g">},
                     %x: tensor<4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x8xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0, %1 = dtc.rms_norm %t scale %g : tensor<8xf32> eps 1.0e-5 : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4xf32>
    %2 = arith.addf %0, %x : tensor<4x8xf32>
    return %2 : tensor<4x8xf32>
  }
}
