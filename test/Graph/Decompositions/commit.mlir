// RUN: dtc-opt --dtc-interpret %s | FileCheck %s

// What is new is written where there is no fault; that a count is no number is one.
// CHECK: result 0: tensor<3xf32> [1, nan, 3]
// CHECK: result 1: tensor<3xf32> [-1, -2, -3]
// CHECK: result 2: tensor<3xf32> [-1, -2, -3]
func.func @main() -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %fresh = arith.constant dense<[1.0, 0x7fc00000, 3.0]> : tensor<3xf32>
  %old = arith.constant dense<[-1.0, -2.0, -3.0]> : tensor<3xf32>
  %none = arith.constant dense<0.0> : tensor<f32>
  %some = arith.constant dense<2.0> : tensor<f32>
  %nan = arith.constant dense<0x7fc00000> : tensor<f32>
  %0 = dtc.commit %fresh, %old, %none : tensor<3xf32>, tensor<f32>
  %1 = dtc.commit %fresh, %old, %some : tensor<3xf32>, tensor<f32>
  %2 = dtc.commit %fresh, %old, %nan : tensor<3xf32>, tensor<f32>
  return %0, %1, %2 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
