// RUN: dtc-opt --dtc-train="loss=mse microbatches=2" %s | FileCheck --check-prefix=MSE %s
// RUN: dtc-opt --dtc-train="loss=output loss-output=penalty" %s | FileCheck --check-prefix=OUTPUT %s
// RUN: dtc-opt --dtc-train="loss=none" %s | FileCheck --check-prefix=NONE %s

// MSE-LABEL: func.func @loss_and_grads(
// MSE-SAME:    %[[T:[^:]*]]: tensor<4x8xf32> {dtc.role = #dtc.role<target, "target">}
// MSE:         %[[D:.*]] = arith.subf %{{.*}}, %[[T]]
// MSE:         %[[S:.*]] = arith.mulf %[[D]], %[[D]]
// MSE:         dtc.reduce sum %[[S]] [1]
// MSE:         %[[TWICE:.*]] = arith.mulf %[[D]], %{{.*}} {dtc.backward =
// MSE:         arith.mulf %[[TWICE]], %{{.*}} {dtc.backward =
// The mean is over all elements of both microbatches.
// MSE-LABEL: func.func @prologue()
// MSE:         arith.constant dense<6.400000e+01> : tensor<f32>

// OUTPUT-LABEL: func.func @loss_and_grads(
// OUTPUT-NOT:     target
// OUTPUT:         %[[P:.*]] = dtc.reduce sum %{{.*}} [0, 1]
// OUTPUT:         dtc.broadcast %{{.*}} [] {dtc.backward =
// OUTPUT:         return %[[P]],
// OUTPUT-LABEL: func.func @prologue()
// OUTPUT:         arith.constant dense<1.000000e+00> : tensor<f32>

// NONE-LABEL: func.func @forward(
// NONE:         arith.mulf {{.*}} {dtc.id = 1 : i64}
// NONE:         return %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<f32>
// NONE-NOT:   func.func
module {
  dtc.parameter trainable @w : tensor<8xf32> file tensor<8xf32>

  func.func @forward(
      %w: tensor<8xf32> {dtc.role = #dtc.role<parameter, "w">},
      %x: tensor<4x8xf32> {dtc.role = #dtc.role<input, "x">})
      -> (tensor<4x8xf32> {dtc.role = #dtc.role<output, "y">},
          tensor<f32> {dtc.role = #dtc.role<output, "penalty">}) {
    %0 = dtc.broadcast %w [1] : tensor<8xf32> -> tensor<4x8xf32>
    %1 = arith.mulf %0, %x : tensor<4x8xf32>
    %2 = dtc.reduce sum %1 [0, 1] : tensor<4x8xf32> -> tensor<f32>
    return %1, %2 : tensor<4x8xf32>, tensor<f32>
  }
}
