// RUN: dtc-opt --dtc-train="loss=mse optimizer=sgd" %s | FileCheck %s

// The two halves of a gated projection: their gradients are joined by one
// concatenation, in the order of the dimension, instead of a sum of paddings.
// CHECK-LABEL: func.func @loss_and_grads
// CHECK:         %[[DG:.*]] = arith.mulf %[[DY:.*]], %{{.*}} {dtc.backward = #dtc.backward<3, input_grad>}
// CHECK:         %[[DU:.*]] = arith.mulf %[[DY]], %{{.*}} {dtc.backward = #dtc.backward<3, input_grad>}
// CHECK-NOT:     dtc.pad
// CHECK:         dtc.concat 1(%[[DG]], %[[DU]]) {dtc.backward = #dtc.backward<0, accumulate>}
// CHECK-NOT:     dtc.pad

module {
  dtc.parameter trainable @w : tensor<6x8xf32> file tensor<6x8xf32>

  func.func @forward(
      %w: tensor<6x8xf32> {dtc.role = #dtc.role<parameter, "w">},
      %x: tensor<4x6xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x4xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.contract %x [0, 2], %w [2, 1] -> [0, 1] : tensor<4x6xf32>, tensor<6x8xf32> -> tensor<4x8xf32>
    %up = dtc.slice %0 offsets [0, 4] strides [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
    %gate = dtc.slice %0 offsets [0, 0] strides [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
    %y = arith.mulf %gate, %up : tensor<4x4xf32>
    return %y : tensor<4x4xf32>
  }
}
