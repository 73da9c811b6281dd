// What is stopped is computed and gets no gradient; a step no longer has the op.
// RUN: dtc-opt --dtc-train="optimizer=sgd loss=mse" -split-input-file %s | FileCheck %s --implicit-check-not=dtc.stop_gradient
// RUN: dtc-opt --dtc-train="loss=none" -split-input-file %s | FileCheck %s --check-prefix=ALONE --implicit-check-not=dtc.stop_gradient

// The gradient of a straight-through estimator is the output's: neither w's floor nor the difference has a part in it.
// CHECK-LABEL: func.func @loss_and_grads
// CHECK: %[[FLOOR:.*]] = math.floor %[[W:arg[0-9]+]]
// CHECK: %[[DIFFERENCE:.*]] = arith.subf %{{.*}}, %[[W]]
// CHECK: arith.addf %[[W]], %[[DIFFERENCE]]
// CHECK: dtc.broadcast
// CHECK: %[[TWICE:.*]] = arith.mulf
// CHECK: %[[GRADIENT:.*]] = arith.mulf %[[TWICE]],
// CHECK: return %{{.*}}, %[[GRADIENT]]
// ALONE-LABEL: func.func @forward
// ALONE: %[[DIFFERENCE:.*]] = arith.subf
// ALONE: arith.addf %{{.*}}, %[[DIFFERENCE]]
dtc.parameter trainable @w : tensor<4xf32> file tensor<4xf32>
func.func @forward(%w: tensor<4xf32> {dtc.role = #dtc.role<parameter, "w">},
                   %x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">})
    -> (tensor<4xf32> {dtc.role = #dtc.role<output, "y">}) {
  %floor = math.floor %w : tensor<4xf32>
  %difference = arith.subf %floor, %w : tensor<4xf32>
  %stopped = dtc.stop_gradient %difference : tensor<4xf32>
  %y = arith.addf %w, %stopped : tensor<4xf32>
  %z = arith.addf %y, %x : tensor<4xf32>
  return %z : tensor<4xf32>
}
