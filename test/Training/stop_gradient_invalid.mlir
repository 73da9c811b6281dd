// A loss that all gradients are stopped on the way to trains nothing.
// RUN: not dtc-opt --dtc-train="optimizer=sgd loss=mse" %s 2>&1 | FileCheck %s
// CHECK: error: the loss depends on no trainable parameter
dtc.parameter trainable @w : tensor<4xf32> file tensor<4xf32>
func.func @forward(%w: tensor<4xf32> {dtc.role = #dtc.role<parameter, "w">},
                   %x: tensor<4xf32> {dtc.role = #dtc.role<input, "x">})
    -> (tensor<4xf32> {dtc.role = #dtc.role<output, "y">}) {
  %stopped = dtc.stop_gradient %w : tensor<4xf32>
  %y = arith.addf %stopped, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
