// RUN: dtc-opt --dtc-train="optimizer=sgd weight-decay=0" %s | FileCheck %s

// A weight of two layers: what both make of its gradient is joined as soon as it is there, and not at the end.

// CHECK-LABEL: func.func @loss_and_grads
// CHECK:         %[[LAST:.*]] = dtc.contract {{.*}} {dtc.backward = #dtc.backward<3, weight_grad>}
// CHECK:         %[[FIRST:.*]] = dtc.contract {{.*}} {dtc.backward = #dtc.backward<2, weight_grad>}
// CHECK-NEXT:    dtc.sum %[[LAST]], %[[FIRST]] {dtc.backward = #dtc.backward<2, accumulate>}
// CHECK:         dtc.reduce {{.*}} {dtc.backward = #dtc.backward<0, weight_grad>}
module {
  dtc.parameter trainable @w : tensor<4x4xf32> file tensor<4x4xf32>
  dtc.parameter trainable @scale : tensor<4xf32> file tensor<4xf32>

  func.func @forward(
      %w: tensor<4x4xf32> {dtc.role = #dtc.role<parameter, "w">},
      %s: tensor<4xf32> {dtc.role = #dtc.role<parameter, "scale">},
      %x: tensor<3x4xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<3x4xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.broadcast %s [1] : tensor<4xf32> -> tensor<3x4xf32>
    %1 = arith.mulf %x, %0 : tensor<3x4xf32>
    %2 = dtc.contract %1 [0, 2], %w [2, 1] -> [0, 1] : tensor<3x4xf32>, tensor<4x4xf32> -> tensor<3x4xf32>
    %3 = dtc.contract %2 [0, 2], %w [2, 1] -> [0, 1] : tensor<3x4xf32>, tensor<4x4xf32> -> tensor<3x4xf32>
    return %3 : tensor<3x4xf32>
  }
}
