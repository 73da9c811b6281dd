// RUN: dtc-opt --dtc-train="optimizer=sgd weight-decay=0" %s | FileCheck %s

// A tied weight: its two gradients are joined, and belong to the first op that
// reads it. What leads to gradients of weights alone is weight_grad, also
// through ops on weights (the transpose); the frozen scale gets no gradient.

// CHECK-LABEL: func.func @loss_and_grads
// CHECK:         dtc.gather {{.*}} {dtc.id = 0 : i64}
// CHECK:         dtc.broadcast {{.*}} {dtc.id = 1 : i64}
// CHECK:         arith.mulf {{.*}} {dtc.id = 2 : i64}
// CHECK:         dtc.transpose {{.*}} {dtc.id = 3 : i64}
// CHECK:         dtc.contract {{.*}} {dtc.id = 4 : i64}
// CHECK:         %[[DH:.*]] = dtc.contract {{.*}} {dtc.backward = #dtc.backward<4, input_grad>}
// CHECK:         %[[DT:.*]] = dtc.contract {{.*}} {dtc.backward = #dtc.backward<4, weight_grad>}
// CHECK:         %[[D0:.*]] = dtc.transpose %[[DT]] [1, 0] {dtc.backward = #dtc.backward<3, weight_grad>}
// CHECK:         %[[DX:.*]] = arith.mulf %[[DH]], {{.*}} {dtc.backward = #dtc.backward<2, input_grad>}
// CHECK-NOT:     dtc.reduce
// CHECK:         %[[D1:.*]] = dtc.scatter_add %{{.*}}, %[[DX]] axis 0 {dtc.backward = #dtc.backward<0, weight_grad>}
// CHECK:         %[[D:.*]] = dtc.sum %[[D0]], %[[D1]] {dtc.backward = #dtc.backward<0, accumulate>}
// CHECK:         return %{{.*}}, %[[D]] :

// CHECK-LABEL: func.func @update
// CHECK:         dtc.sgd_update %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {momentum = 0.000000e+00 : f64, weightDecay = 0.000000e+00 : f64} : (tensor<7x4xf32>, tensor<7x4xf32>, tensor<f64>, tensor<f32>) -> tensor<7x4xf32>
module {
  dtc.parameter trainable @wte : tensor<7x4xf32> file tensor<7x4xf32>
  dtc.parameter @scale : tensor<4xf32> file tensor<4xf32>

  func.func @forward(
      %w: tensor<7x4xf32> {dtc.role = #dtc.role<parameter, "wte">},
      %s: tensor<4xf32> {dtc.role = #dtc.role<parameter, "scale">},
      %ids: tensor<2x3xi64> {dtc.role = #dtc.role<input, "ids">})
      -> (tensor<2x3x7xf32> {dtc.role = #dtc.role<output, "y">}) {
    %0 = dtc.gather %w, %ids axis 0 : tensor<7x4xf32>, tensor<2x3xi64> -> tensor<2x3x4xf32>
    %1 = dtc.broadcast %s [2] : tensor<4xf32> -> tensor<2x3x4xf32>
    %2 = arith.mulf %0, %1 : tensor<2x3x4xf32>
    %3 = dtc.transpose %w [1, 0] : tensor<7x4xf32> -> tensor<4x7xf32>
    %4 = dtc.contract %2 [0, 1, 3], %3 [3, 2] -> [0, 1, 2]
      : tensor<2x3x4xf32>, tensor<4x7xf32> -> tensor<2x3x7xf32>
    return %4 : tensor<2x3x7xf32>
  }
}
